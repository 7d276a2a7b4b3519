// The contract of https://github.com/modelcontextprotocol/modelcontextprotocol/blob/f7e99af6417ec978233d8e27e1ac878b12106542/schema/draft/schema.ts, without its prose.
// Written by `mcprev import`; not edited by hand.

/** @category Common Types */
export type JSONValue = string | number | boolean | null | JSONObject | JSONArray;

/** @category Common Types */
export type JSONObject = { [key: string]: JSONValue };

/** @category Common Types */
export type JSONArray = JSONValue[];

/** @category JSON-RPC */
export type JSONRPCMessage = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse;

/** @internal */
export const LATEST_PROTOCOL_VERSION = "2026-07-28";

/** @internal */
export const JSONRPC_VERSION = "2.0";

/** @category Common Types */
export type MetaObject = Record<string, unknown>;

/** @category Common Types */
export interface RequestMetaObject extends MetaObject {
  progressToken?: ProgressToken;
  "io.modelcontextprotocol/protocolVersion": string;
  "io.modelcontextprotocol/clientInfo"?: Implementation;
  "io.modelcontextprotocol/clientCapabilities": ClientCapabilities;
  /** @deprecated */
  "io.modelcontextprotocol/logLevel"?: LoggingLevel;
}

/** @category Common Types */
export interface NotificationMetaObject extends MetaObject {
  "io.modelcontextprotocol/subscriptionId"?: RequestId;
}

/** @category Common Types */
export interface ResultMetaObject extends MetaObject {
  "io.modelcontextprotocol/serverInfo"?: Implementation;
}

/** @category Common Types */
export type ProgressToken = string | number;

/** @category Common Types */
export type Cursor = string;

/** @category Common Types */
export interface RequestParams {
  _meta: RequestMetaObject;
}

/** @internal */
export interface Request {
  method: string;
  params?: { [key: string]: any };
}

/** @category Common Types */
export interface NotificationParams {
  _meta?: NotificationMetaObject;
}

/** @internal */
export interface Notification {
  method: string;
  params?: { [key: string]: any };
}

/** @category Common Types */
export type ResultType = "complete" | "input_required" | string;

/** @category Common Types */
export interface Result {
  _meta?: ResultMetaObject;
  resultType: ResultType;
  [key: string]: unknown;
}

/** @category Errors */
export interface Error {
  code: number;
  message: string;
  data?: unknown;
}

/** @category Common Types */
export type RequestId = string | number;

/** @category JSON-RPC */
export interface JSONRPCRequest extends Request {
  jsonrpc: typeof JSONRPC_VERSION;
  id: RequestId;
}

/** @category JSON-RPC */
export interface JSONRPCNotification extends Notification {
  jsonrpc: typeof JSONRPC_VERSION;
}

/** @category JSON-RPC */
export interface JSONRPCResultResponse {
  jsonrpc: typeof JSONRPC_VERSION;
  id: RequestId;
  result: Result;
}

/** @category JSON-RPC */
export interface JSONRPCErrorResponse {
  jsonrpc: typeof JSONRPC_VERSION;
  id?: RequestId;
  error: Error;
}

/** @category JSON-RPC */
export type JSONRPCResponse = JSONRPCResultResponse | JSONRPCErrorResponse;

export const PARSE_ERROR = -32700;

export const INVALID_REQUEST = -32600;

export const METHOD_NOT_FOUND = -32601;

export const INVALID_PARAMS = -32602;

export const INTERNAL_ERROR = -32603;

/** @category Errors */
export interface ParseError extends Error {
  code: typeof PARSE_ERROR;
}

/** @category Errors */
export interface InvalidRequestError extends Error {
  code: typeof INVALID_REQUEST;
}

/** @category Errors */
export interface MethodNotFoundError extends Error {
  code: typeof METHOD_NOT_FOUND;
}

/** @category Errors */
export interface InvalidParamsError extends Error {
  code: typeof INVALID_PARAMS;
}

/** @category Errors */
export interface InternalError extends Error {
  code: typeof INTERNAL_ERROR;
}

/** @category Errors */
export const HEADER_MISMATCH = -32020;

/** @category Errors */
export const MISSING_REQUIRED_CLIENT_CAPABILITY = -32021;

/** @category Errors */
export const UNSUPPORTED_PROTOCOL_VERSION = -32022;

/** @category Errors */
export interface HeaderMismatchError extends Omit<JSONRPCErrorResponse, "error"> {
  error: Error & {
    code: typeof HEADER_MISMATCH;
  };
}

/** @category Errors */
export interface UnsupportedProtocolVersionError extends Omit<JSONRPCErrorResponse, "error"> {
  error: Error & {
    code: typeof UNSUPPORTED_PROTOCOL_VERSION;
    data: {
      supported: string[];
      requested: string;
    };
  };
}

/** @category Errors */
export interface MissingRequiredClientCapabilityError extends Omit<JSONRPCErrorResponse, "error"> {
  error: Error & {
    code: typeof MISSING_REQUIRED_CLIENT_CAPABILITY;
    data: {
      requiredCapabilities: ClientCapabilities;
    };
  };
}

/** @category Common Types */
export type EmptyResult = Result;

/** @internal */
export type InputRequest = CreateMessageRequest | ListRootsRequest | ElicitRequest;

/** @internal */
export type InputResponse = CreateMessageResult | ListRootsResult | ElicitResult;

/** @category Multi Round-Trip */
export interface InputRequests { [key: string]: InputRequest }

/** @category Multi Round-Trip */
export interface InputResponses { [key: string]: InputResponse }

/** @category Multi Round-Trip */
export interface InputRequiredResult extends Result {
  inputRequests?: InputRequests;
  requestState?: string;
}

export interface InputResponseRequestParams extends RequestParams {
  inputResponses?: InputResponses;
  requestState?: string;
}

/** @category `notifications/cancelled` */
export interface CancelledNotificationParams extends NotificationParams {
  requestId: RequestId;
  reason?: string;
}

/** @category `notifications/cancelled` */
export interface CancelledNotification extends JSONRPCNotification {
  method: "notifications/cancelled";
  params: CancelledNotificationParams;
}

/** @category `server/discover` */
export interface DiscoverRequest extends JSONRPCRequest {
  method: "server/discover";
  params: RequestParams;
}

/** @category `server/discover` */
export interface DiscoverResult extends CacheableResult {
  supportedVersions: string[];
  capabilities: ServerCapabilities;
  instructions?: string;
}

/** @category `server/discover` */
export interface DiscoverResultResponse extends JSONRPCResultResponse {
  result: DiscoverResult;
}

/** @category `server/discover` */
export interface ClientCapabilities {
  experimental?: { [key: string]: JSONObject };
  /** @deprecated */
  roots?: {};
  /** @deprecated */
  sampling?: {
    context?: JSONObject;
    tools?: JSONObject;
  };
  elicitation?: {
    form?: JSONObject;
    url?: JSONObject;
  };
  extensions?: { [key: string]: JSONObject };
}

/** @category `server/discover` */
export interface ServerCapabilities {
  experimental?: { [key: string]: JSONObject };
  /** @deprecated */
  logging?: JSONObject;
  completions?: JSONObject;
  prompts?: {
    listChanged?: boolean;
  };
  resources?: {
    subscribe?: boolean;
    listChanged?: boolean;
  };
  tools?: {
    listChanged?: boolean;
  };
  extensions?: { [key: string]: JSONObject };
}

/** @category Common Types */
export interface Icon {
  /** @format uri */
  src: string;
  mimeType?: string;
  sizes?: string[];
  theme?: "light" | "dark";
}

/** @internal */
export interface Icons {
  icons?: Icon[];
}

/** @internal */
export interface BaseMetadata {
  name: string;
  title?: string;
}

/** @category `server/discover` */
export interface Implementation extends BaseMetadata, Icons {
  version: string;
  description?: string;
  /** @format uri */
  websiteUrl?: string;
}

/** @category `notifications/progress` */
export interface ProgressNotificationParams extends NotificationParams {
  progressToken: ProgressToken;
  /** @TJS-type number */
  progress: number;
  /** @TJS-type number */
  total?: number;
  message?: string;
}

/** @category `notifications/progress` */
export interface ProgressNotification extends JSONRPCNotification {
  method: "notifications/progress";
  params: ProgressNotificationParams;
}

/** @category Common Types */
export interface PaginatedRequestParams extends RequestParams {
  cursor?: Cursor;
}

/** @internal */
export interface PaginatedRequest extends JSONRPCRequest {
  params: PaginatedRequestParams;
}

/** @internal */
export interface PaginatedResult extends Result {
  nextCursor?: Cursor;
}

/** @internal */
export interface CacheableResult extends Result {
  /** @minimum 0 */
  ttlMs: number;
  cacheScope: "public" | "private";
}

/** @category `resources/list` */
export interface ListResourcesRequest extends PaginatedRequest {
  method: "resources/list";
}

/** @category `resources/list` */
export interface ListResourcesResult extends PaginatedResult, CacheableResult {
  resources: Resource[];
}

/** @category `resources/list` */
export interface ListResourcesResultResponse extends JSONRPCResultResponse {
  result: ListResourcesResult;
}

/** @category `resources/templates/list` */
export interface ListResourceTemplatesRequest extends PaginatedRequest {
  method: "resources/templates/list";
}

/** @category `resources/templates/list` */
export interface ListResourceTemplatesResult extends PaginatedResult, CacheableResult {
  resourceTemplates: ResourceTemplate[];
}

/** @category `resources/templates/list` */
export interface ListResourceTemplatesResultResponse extends JSONRPCResultResponse {
  result: ListResourceTemplatesResult;
}

/** @internal */
export interface ResourceRequestParams extends RequestParams {
  /** @format uri */
  uri: string;
}

/** @category `resources/read` */
export interface ReadResourceRequestParams extends ResourceRequestParams, InputResponseRequestParams {}

/** @category `resources/read` */
export interface ReadResourceRequest extends JSONRPCRequest {
  method: "resources/read";
  params: ReadResourceRequestParams;
}

/** @category `resources/read` */
export interface ReadResourceResult extends CacheableResult {
  contents: (TextResourceContents | BlobResourceContents)[];
}

/** @category `resources/read` */
export interface ReadResourceResultResponse extends JSONRPCResultResponse {
  result: ReadResourceResult | InputRequiredResult;
}

/** @category `notifications/resources/list_changed` */
export interface ResourceListChangedNotification extends JSONRPCNotification {
  method: "notifications/resources/list_changed";
  params?: NotificationParams;
}

/** @category `subscriptions/listen` */
export interface SubscriptionFilter {
  toolsListChanged?: boolean;
  promptsListChanged?: boolean;
  resourcesListChanged?: boolean;
  resourceSubscriptions?: string[];
}

/** @category `subscriptions/listen` */
export interface SubscriptionsListenRequestParams extends RequestParams {
  notifications: SubscriptionFilter;
}

/** @category `subscriptions/listen` */
export interface SubscriptionsListenRequest extends JSONRPCRequest {
  method: "subscriptions/listen";
  params: SubscriptionsListenRequestParams;
}

/** @category `subscriptions/listen` */
export interface SubscriptionsListenResultMetaObject extends ResultMetaObject {
  "io.modelcontextprotocol/subscriptionId": RequestId;
}

/** @category `subscriptions/listen` */
export interface SubscriptionsListenResult extends Result {
  _meta: SubscriptionsListenResultMetaObject;
}

/** @category `subscriptions/listen` */
export interface SubscriptionsListenResultResponse extends JSONRPCResultResponse {
  result: SubscriptionsListenResult;
}

/** @category `notifications/subscriptions/acknowledged` */
export interface SubscriptionsAcknowledgedNotificationParams extends NotificationParams {
  notifications: SubscriptionFilter;
}

/** @category `notifications/subscriptions/acknowledged` */
export interface SubscriptionsAcknowledgedNotification extends JSONRPCNotification {
  method: "notifications/subscriptions/acknowledged";
  params: SubscriptionsAcknowledgedNotificationParams;
}

/** @category `notifications/resources/updated` */
export interface ResourceUpdatedNotificationParams extends NotificationParams {
  /** @format uri */
  uri: string;
}

/** @category `notifications/resources/updated` */
export interface ResourceUpdatedNotification extends JSONRPCNotification {
  method: "notifications/resources/updated";
  params: ResourceUpdatedNotificationParams;
}

/** @category `resources/list` */
export interface Resource extends BaseMetadata, Icons {
  /** @format uri */
  uri: string;
  description?: string;
  mimeType?: string;
  annotations?: Annotations;
  size?: number;
  _meta?: MetaObject;
}

/** @category `resources/templates/list` */
export interface ResourceTemplate extends BaseMetadata, Icons {
  /** @format uri-template */
  uriTemplate: string;
  description?: string;
  mimeType?: string;
  annotations?: Annotations;
  _meta?: MetaObject;
}

/** @internal */
export interface ResourceContents {
  /** @format uri */
  uri: string;
  mimeType?: string;
  _meta?: MetaObject;
}

/** @category Content */
export interface TextResourceContents extends ResourceContents {
  text: string;
}

/** @category Content */
export interface BlobResourceContents extends ResourceContents {
  /** @format byte */
  blob: string;
}

/** @category `prompts/list` */
export interface ListPromptsRequest extends PaginatedRequest {
  method: "prompts/list";
}

/** @category `prompts/list` */
export interface ListPromptsResult extends PaginatedResult, CacheableResult {
  prompts: Prompt[];
}

/** @category `prompts/list` */
export interface ListPromptsResultResponse extends JSONRPCResultResponse {
  result: ListPromptsResult;
}

/** @category `prompts/get` */
export interface GetPromptRequestParams extends InputResponseRequestParams {
  name: string;
  arguments?: { [key: string]: string };
}

/** @category `prompts/get` */
export interface GetPromptRequest extends JSONRPCRequest {
  method: "prompts/get";
  params: GetPromptRequestParams;
}

/** @category `prompts/get` */
export interface GetPromptResult extends Result {
  description?: string;
  messages: PromptMessage[];
}

/** @category `prompts/get` */
export interface GetPromptResultResponse extends JSONRPCResultResponse {
  result: GetPromptResult | InputRequiredResult;
}

/** @category `prompts/list` */
export interface Prompt extends BaseMetadata, Icons {
  description?: string;
  arguments?: PromptArgument[];
  _meta?: MetaObject;
}

/** @category `prompts/list` */
export interface PromptArgument extends BaseMetadata {
  description?: string;
  required?: boolean;
}

/** @category Common Types */
export type Role = "user" | "assistant";

/** @category `prompts/get` */
export interface PromptMessage {
  role: Role;
  content: ContentBlock;
}

/** @category Content */
export interface ResourceLink extends Resource {
  type: "resource_link";
}

/** @category Content */
export interface EmbeddedResource {
  type: "resource";
  resource: TextResourceContents | BlobResourceContents;
  annotations?: Annotations;
  _meta?: MetaObject;
}

/** @category `notifications/prompts/list_changed` */
export interface PromptListChangedNotification extends JSONRPCNotification {
  method: "notifications/prompts/list_changed";
  params?: NotificationParams;
}

/** @category `tools/list` */
export interface ListToolsRequest extends PaginatedRequest {
  method: "tools/list";
}

/** @category `tools/list` */
export interface ListToolsResult extends PaginatedResult, CacheableResult {
  tools: Tool[];
}

/** @category `tools/list` */
export interface ListToolsResultResponse extends JSONRPCResultResponse {
  result: ListToolsResult;
}

/** @category `tools/call` */
export interface CallToolResult extends Result {
  content: ContentBlock[];
  structuredContent?: unknown;
  isError?: boolean;
}

/** @category `tools/call` */
export interface CallToolResultResponse extends JSONRPCResultResponse {
  result: CallToolResult | InputRequiredResult;
}

/** @category `tools/call` */
export interface CallToolRequestParams extends InputResponseRequestParams {
  name: string;
  arguments?: { [key: string]: unknown };
}

/** @category `tools/call` */
export interface CallToolRequest extends JSONRPCRequest {
  method: "tools/call";
  params: CallToolRequestParams;
}

/** @category `notifications/tools/list_changed` */
export interface ToolListChangedNotification extends JSONRPCNotification {
  method: "notifications/tools/list_changed";
  params?: NotificationParams;
}

/** @category `tools/list` */
export interface ToolAnnotations {
  title?: string;
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

/** @category `tools/list` */
export interface Tool extends BaseMetadata, Icons {
  description?: string;
  inputSchema: {
    $schema?: string;
    type: "object";
    [key: string]: unknown;
  };
  outputSchema?: {
    $schema?: string;
    [key: string]: unknown;
  };
  annotations?: ToolAnnotations;
  _meta?: MetaObject;
}

/**
 * @category `notifications/message`
 * @deprecated
 */
export interface LoggingMessageNotificationParams extends NotificationParams {
  level: LoggingLevel;
  logger?: string;
  data: unknown;
}

/**
 * @category `notifications/message`
 * @deprecated
 */
export interface LoggingMessageNotification extends JSONRPCNotification {
  method: "notifications/message";
  params: LoggingMessageNotificationParams;
}

/**
 * @category Common Types
 * @deprecated
 */
export type LoggingLevel = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface CreateMessageRequestParams {
  messages: SamplingMessage[];
  modelPreferences?: ModelPreferences;
  systemPrompt?: string;
  /** @deprecated */
  includeContext?: "none" | "thisServer" | "allServers";
  /** @TJS-type number */
  temperature?: number;
  maxTokens: number;
  stopSequences?: string[];
  metadata?: JSONObject;
  tools?: Tool[];
  toolChoice?: ToolChoice;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface ToolChoice {
  mode?: "auto" | "required" | "none";
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface CreateMessageRequest {
  method: "sampling/createMessage";
  params: CreateMessageRequestParams;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface CreateMessageResult extends SamplingMessage {
  model: string;
  stopReason?: "endTurn" | "stopSequence" | "maxTokens" | "toolUse" | string;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface SamplingMessage {
  role: Role;
  content: SamplingMessageContentBlock | SamplingMessageContentBlock[];
  _meta?: MetaObject;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export type SamplingMessageContentBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent;

/** @category Common Types */
export interface Annotations {
  audience?: Role[];
  /**
   * @TJS-type number
   * @minimum 0
   * @maximum 1
   */
  priority?: number;
  lastModified?: string;
}

/** @category Content */
export type ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;

/** @category Content */
export interface TextContent {
  type: "text";
  text: string;
  annotations?: Annotations;
  _meta?: MetaObject;
}

/** @category Content */
export interface ImageContent {
  type: "image";
  /** @format byte */
  data: string;
  mimeType: string;
  annotations?: Annotations;
  _meta?: MetaObject;
}

/** @category Content */
export interface AudioContent {
  type: "audio";
  /** @format byte */
  data: string;
  mimeType: string;
  annotations?: Annotations;
  _meta?: MetaObject;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface ToolUseContent {
  type: "tool_use";
  id: string;
  name: string;
  input: { [key: string]: unknown };
  _meta?: MetaObject;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface ToolResultContent {
  type: "tool_result";
  toolUseId: string;
  content: ContentBlock[];
  structuredContent?: unknown;
  isError?: boolean;
  _meta?: MetaObject;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface ModelPreferences {
  hints?: ModelHint[];
  /**
   * @TJS-type number
   * @minimum 0
   * @maximum 1
   */
  costPriority?: number;
  /**
   * @TJS-type number
   * @minimum 0
   * @maximum 1
   */
  speedPriority?: number;
  /**
   * @TJS-type number
   * @minimum 0
   * @maximum 1
   */
  intelligencePriority?: number;
}

/**
 * @category `sampling/createMessage`
 * @deprecated
 */
export interface ModelHint {
  name?: string;
}

/** @category `completion/complete` */
export interface CompleteRequestParams extends RequestParams {
  ref: PromptReference | ResourceTemplateReference;
  argument: {
    name: string;
    value: string;
  };
  context?: {
    arguments?: { [key: string]: string };
  };
}

/** @category `completion/complete` */
export interface CompleteRequest extends JSONRPCRequest {
  method: "completion/complete";
  params: CompleteRequestParams;
}

/** @category `completion/complete` */
export interface CompleteResult extends Result {
  completion: {
    /** @maxItems 100 */
    values: string[];
    total?: number;
    hasMore?: boolean;
  };
}

/** @category `completion/complete` */
export interface CompleteResultResponse extends JSONRPCResultResponse {
  result: CompleteResult;
}

/** @category `completion/complete` */
export interface ResourceTemplateReference {
  type: "ref/resource";
  /** @format uri-template */
  uri: string;
}

/** @category `completion/complete` */
export interface PromptReference extends BaseMetadata {
  type: "ref/prompt";
}

/**
 * @category `roots/list`
 * @deprecated
 */
export interface ListRootsRequest {
  method: "roots/list";
  params?: {
    _meta?: MetaObject;
  };
}

/**
 * @category `roots/list`
 * @deprecated
 */
export interface ListRootsResult {
  roots: Root[];
}

/**
 * @category `roots/list`
 * @deprecated
 */
export interface Root {
  /** @format uri */
  uri: string;
  name?: string;
  _meta?: MetaObject;
}

/** @category `elicitation/create` */
export interface ElicitRequestFormParams {
  mode?: "form";
  message: string;
  requestedSchema: {
    $schema?: string;
    type: "object";
    properties: { [key: string]: PrimitiveSchemaDefinition };
    required?: string[];
  };
}

/** @category `elicitation/create` */
export interface ElicitRequestURLParams {
  mode: "url";
  message: string;
  /** @format uri */
  url: string;
}

/** @category `elicitation/create` */
export type ElicitRequestParams = ElicitRequestFormParams | ElicitRequestURLParams;

/** @category `elicitation/create` */
export interface ElicitRequest {
  method: "elicitation/create";
  params: ElicitRequestParams;
}

/** @category `elicitation/create` */
export type PrimitiveSchemaDefinition = StringSchema | NumberSchema | BooleanSchema | EnumSchema;

/** @category `elicitation/create` */
export interface StringSchema {
  type: "string";
  title?: string;
  description?: string;
  minLength?: number;
  maxLength?: number;
  format?: "email" | "uri" | "date" | "date-time";
  default?: string;
}

/** @category `elicitation/create` */
export interface NumberSchema {
  type: "number" | "integer";
  title?: string;
  description?: string;
  /** @TJS-type number */
  minimum?: number;
  /** @TJS-type number */
  maximum?: number;
  /** @TJS-type number */
  default?: number;
}

/** @category `elicitation/create` */
export interface BooleanSchema {
  type: "boolean";
  title?: string;
  description?: string;
  default?: boolean;
}

/** @category `elicitation/create` */
export interface UntitledSingleSelectEnumSchema {
  type: "string";
  title?: string;
  description?: string;
  enum: string[];
  default?: string;
}

/** @category `elicitation/create` */
export interface TitledSingleSelectEnumSchema {
  type: "string";
  title?: string;
  description?: string;
  oneOf: {
    const: string;
    title: string;
  }[];
  default?: string;
}

/** @category `elicitation/create` */
export type SingleSelectEnumSchema = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema;

/** @category `elicitation/create` */
export interface UntitledMultiSelectEnumSchema {
  type: "array";
  title?: string;
  description?: string;
  minItems?: number;
  maxItems?: number;
  items: {
    type: "string";
    enum: string[];
  };
  default?: string[];
}

/** @category `elicitation/create` */
export interface TitledMultiSelectEnumSchema {
  type: "array";
  title?: string;
  description?: string;
  minItems?: number;
  maxItems?: number;
  items: {
    anyOf: {
      const: string;
      title: string;
    }[];
  };
  default?: string[];
}

/** @category `elicitation/create` */
export type MultiSelectEnumSchema = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema;

/** @category `elicitation/create` */
export interface LegacyTitledEnumSchema {
  type: "string";
  title?: string;
  description?: string;
  enum: string[];
  enumNames?: string[];
  default?: string;
}

/** @category `elicitation/create` */
export type EnumSchema = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema;

/** @category `elicitation/create` */
export interface ElicitResult {
  action: "accept" | "decline" | "cancel";
  content?: { [key: string]: string | number | boolean | string[] };
}

/** @internal */
export type ClientRequest = DiscoverRequest | CompleteRequest | GetPromptRequest | ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest | SubscriptionsListenRequest | CallToolRequest | ListToolsRequest;

/** @internal */
export type ClientNotification = CancelledNotification;

/** @internal */
export type ClientResult = EmptyResult;

/** @internal */
export type ServerNotification = CancelledNotification | ProgressNotification | LoggingMessageNotification | ResourceUpdatedNotification | ResourceListChangedNotification | ToolListChangedNotification | PromptListChangedNotification | SubscriptionsAcknowledgedNotification;

/** @internal */
export type ServerResult = EmptyResult | DiscoverResult | CompleteResult | GetPromptResult | ListPromptsResult | ListResourceTemplatesResult | ListResourcesResult | ReadResourceResult | SubscriptionsListenResult | CallToolResult | ListToolsResult | InputRequiredResult;
