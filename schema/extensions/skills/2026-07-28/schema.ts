// Written from the text of https://github.com/modelcontextprotocol/ext-skills/blob/0682b7b6e9e661fbf8538e27cbd3e7282927b45a/specification/stable/skills.mdx, which has no schema.ts.
// Written by `mcprev import`; not edited by hand.

import type {
  CacheableResult,
  JSONRPCRequest,
  PaginatedRequest,
  PaginatedRequestParams,
  PaginatedResult,
  RequestParams,
  Resource,
} from "../../../2026-07-28/schema.js";

/** @category Skills */
export interface SkillsExtensionCapability {
  directoryRead?: boolean;
}

/** @category Skills */
export interface SkillResource {
  /** @format uri */
  uri: string;
  /** @pattern ^sha256:[0-9a-f]{64}$ */
  digest: string;
  /** @minimum 0 */
  size: number;
}

/** @category Skills */
export interface SkillFrontmatter {
  name: string;
  description: string;
  [key: string]: unknown;
}

/** @category Skills */
export interface Skill {
  /** @format uri */
  uri: string;
  frontmatter: SkillFrontmatter;
  resources: SkillResource[] | "dynamic";
}

/** @category `skills/list` */
export interface ListSkillsRequest extends PaginatedRequest {
  method: "skills/list";
}

/** @category `skills/list` */
export interface ListSkillsResult extends PaginatedResult, CacheableResult {
  skills: Skill[];
}

/** @category `skills/get` */
export interface GetSkillRequestParams extends RequestParams {
  /** @format uri */
  uri: string;
}

/** @category `skills/get` */
export interface GetSkillRequest extends JSONRPCRequest {
  method: "skills/get";
  params: GetSkillRequestParams;
}

/** @category `skills/get` */
export interface GetSkillResult extends CacheableResult {
  skill: Skill;
}

/** @category `resources/directory/read` */
export interface ReadResourceDirectoryRequestParams extends PaginatedRequestParams {
  /** @format uri */
  uri: string;
}

/** @category `resources/directory/read` */
export interface ReadResourceDirectoryRequest extends JSONRPCRequest {
  method: "resources/directory/read";
  params: ReadResourceDirectoryRequestParams;
}

/** @category `resources/directory/read` */
export interface ReadResourceDirectoryResult extends PaginatedResult {
  resources: Resource[];
}

export type ClientRequest = ListSkillsRequest | GetSkillRequest | ReadResourceDirectoryRequest;

export type ServerResult = ListSkillsResult | GetSkillResult | ReadResourceDirectoryResult;
