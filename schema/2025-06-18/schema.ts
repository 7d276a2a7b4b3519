// The contract of https://github.com/modelcontextprotocol/modelcontextprotocol/blob/2ebb8060268e177b22598b403d6ba6764bb899ac/schema/2025-06-18/schema.ts, without its prose.
// Written by `mcprev import`; not edited by hand.

/** @category JSON-RPC */
export type JSONRPCMessage = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError;

/** @internal */
export const LATEST_PROTOCOL_VERSION = "2025-06-18";

/** @internal */
export const JSONRPC_VERSION = "2.0";

/** @category Common Types */
export type ProgressToken = string | number;

/** @category Common Types */
export type Cursor = string;

/** @internal */
export interface Request {
  method: string;
  params?: {
    _meta?: {
      progressToken?: ProgressToken;
      [key: string]: unknown;
    };
    [key: string]: unknown;
  };
}

/** @internal */
export interface Notification {
  method: string;
  params?: {
    _meta?: { [key: string]: unknown };
    [key: string]: unknown;
  };
}

/** @category Common Types */
export interface Result {
  _meta?: { [key: string]: unknown };
  [key: string]: unknown;
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
export interface JSONRPCResponse {
  jsonrpc: typeof JSONRPC_VERSION;
  id: RequestId;
  result: Result;
}

export const PARSE_ERROR = -32700;

export const INVALID_REQUEST = -32600;

export const METHOD_NOT_FOUND = -32601;

export const INVALID_PARAMS = -32602;

export const INTERNAL_ERROR = -32603;

/** @category JSON-RPC */
export interface JSONRPCError {
  jsonrpc: typeof JSONRPC_VERSION;
  id: RequestId;
  error: {
    code: number;
    message: string;
    data?: unknown;
  };
}

/** @category Common Types */
export type EmptyResult = Result;

/** @category `notifications/cancelled` */
export interface CancelledNotification extends Notification {
  method: "notifications/cancelled";
  params: {
    requestId: RequestId;
    reason?: string;
  };
}

/** @category `initialize` */
export interface InitializeRequest extends Request {
  method: "initialize";
  params: {
    protocolVersion: string;
    capabilities: ClientCapabilities;
    clientInfo: Implementation;
  };
}

/** @category `initialize` */
export interface InitializeResult extends Result {
  protocolVersion: string;
  capabilities: ServerCapabilities;
  serverInfo: Implementation;
  instructions?: string;
}

/** @category `notifications/initialized` */
export interface InitializedNotification extends Notification {
  method: "notifications/initialized";
}

/** @category `initialize` */
export interface ClientCapabilities {
  experimental?: { [key: string]: object };
  roots?: {
    listChanged?: boolean;
  };
  sampling?: object;
  elicitation?: object;
}

/** @category `initialize` */
export interface ServerCapabilities {
  experimental?: { [key: string]: object };
  logging?: object;
  completions?: object;
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
}

/** @internal */
export interface BaseMetadata {
  name: string;
  title?: string;
}

/** @category `initialize` */
export interface Implementation extends BaseMetadata {
  version: string;
}

/** @category `ping` */
export interface PingRequest extends Request {
  method: "ping";
}

/** @category `notifications/progress` */
export interface ProgressNotification extends Notification {
  method: "notifications/progress";
  params: {
    progressToken: ProgressToken;
    /** @TJS-type number */
    progress: number;
    /** @TJS-type number */
    total?: number;
    message?: string;
  };
}

/** @internal */
export interface PaginatedRequest extends Request {
  params?: {
    cursor?: Cursor;
  };
}

/** @internal */
export interface PaginatedResult extends Result {
  nextCursor?: Cursor;
}

/** @category `resources/list` */
export interface ListResourcesRequest extends PaginatedRequest {
  method: "resources/list";
}

/** @category `resources/list` */
export interface ListResourcesResult extends PaginatedResult {
  resources: Resource[];
}

/** @category `resources/templates/list` */
export interface ListResourceTemplatesRequest extends PaginatedRequest {
  method: "resources/templates/list";
}

/** @category `resources/templates/list` */
export interface ListResourceTemplatesResult extends PaginatedResult {
  resourceTemplates: ResourceTemplate[];
}

/** @category `resources/read` */
export interface ReadResourceRequest extends Request {
  method: "resources/read";
  params: {
    /** @format uri */
    uri: string;
  };
}

/** @category `resources/read` */
export interface ReadResourceResult extends Result {
  contents: (TextResourceContents | BlobResourceContents)[];
}

/** @category `notifications/resources/list_changed` */
export interface ResourceListChangedNotification extends Notification {
  method: "notifications/resources/list_changed";
}

/** @category `resources/subscribe` */
export interface SubscribeRequest extends Request {
  method: "resources/subscribe";
  params: {
    /** @format uri */
    uri: string;
  };
}

/** @category `resources/unsubscribe` */
export interface UnsubscribeRequest extends Request {
  method: "resources/unsubscribe";
  params: {
    /** @format uri */
    uri: string;
  };
}

/** @category `notifications/resources/updated` */
export interface ResourceUpdatedNotification extends Notification {
  method: "notifications/resources/updated";
  params: {
    /** @format uri */
    uri: string;
  };
}

/** @category `resources/list` */
export interface Resource extends BaseMetadata {
  /** @format uri */
  uri: string;
  description?: string;
  mimeType?: string;
  annotations?: Annotations;
  size?: number;
  _meta?: { [key: string]: unknown };
}

/** @category `resources/templates/list` */
export interface ResourceTemplate extends BaseMetadata {
  /** @format uri-template */
  uriTemplate: string;
  description?: string;
  mimeType?: string;
  annotations?: Annotations;
  _meta?: { [key: string]: unknown };
}

/** @internal */
export interface ResourceContents {
  /** @format uri */
  uri: string;
  mimeType?: string;
  _meta?: { [key: string]: unknown };
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
export interface ListPromptsResult extends PaginatedResult {
  prompts: Prompt[];
}

/** @category `prompts/get` */
export interface GetPromptRequest extends Request {
  method: "prompts/get";
  params: {
    name: string;
    arguments?: { [key: string]: string };
  };
}

/** @category `prompts/get` */
export interface GetPromptResult extends Result {
  description?: string;
  messages: PromptMessage[];
}

/** @category `prompts/list` */
export interface Prompt extends BaseMetadata {
  description?: string;
  arguments?: PromptArgument[];
  _meta?: { [key: string]: unknown };
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
  _meta?: { [key: string]: unknown };
}

/** @category `notifications/prompts/list_changed` */
export interface PromptListChangedNotification extends Notification {
  method: "notifications/prompts/list_changed";
}

/** @category `tools/list` */
export interface ListToolsRequest extends PaginatedRequest {
  method: "tools/list";
}

/** @category `tools/list` */
export interface ListToolsResult extends PaginatedResult {
  tools: Tool[];
}

/** @category `tools/call` */
export interface CallToolResult extends Result {
  content: ContentBlock[];
  structuredContent?: { [key: string]: unknown };
  isError?: boolean;
}

/** @category `tools/call` */
export interface CallToolRequest extends Request {
  method: "tools/call";
  params: {
    name: string;
    arguments?: { [key: string]: unknown };
  };
}

/** @category `notifications/tools/list_changed` */
export interface ToolListChangedNotification extends Notification {
  method: "notifications/tools/list_changed";
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
export interface Tool extends BaseMetadata {
  description?: string;
  inputSchema: {
    type: "object";
    properties?: { [key: string]: object };
    required?: string[];
  };
  outputSchema?: {
    type: "object";
    properties?: { [key: string]: object };
    required?: string[];
  };
  annotations?: ToolAnnotations;
  _meta?: { [key: string]: unknown };
}

/** @category `logging/setLevel` */
export interface SetLevelRequest extends Request {
  method: "logging/setLevel";
  params: {
    level: LoggingLevel;
  };
}

/** @category `notifications/message` */
export interface LoggingMessageNotification extends Notification {
  method: "notifications/message";
  params: {
    level: LoggingLevel;
    logger?: string;
    data: unknown;
  };
}

/** @category Common Types */
export type LoggingLevel = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";

/** @category `sampling/createMessage` */
export interface CreateMessageRequest extends Request {
  method: "sampling/createMessage";
  params: {
    messages: SamplingMessage[];
    modelPreferences?: ModelPreferences;
    systemPrompt?: string;
    includeContext?: "none" | "thisServer" | "allServers";
    /** @TJS-type number */
    temperature?: number;
    maxTokens: number;
    stopSequences?: string[];
    metadata?: object;
  };
}

/** @category `sampling/createMessage` */
export interface CreateMessageResult extends Result, SamplingMessage {
  model: string;
  stopReason?: "endTurn" | "stopSequence" | "maxTokens" | string;
}

/** @category `sampling/createMessage` */
export interface SamplingMessage {
  role: Role;
  content: TextContent | ImageContent | AudioContent;
}

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
  _meta?: { [key: string]: unknown };
}

/** @category Content */
export interface ImageContent {
  type: "image";
  /** @format byte */
  data: string;
  mimeType: string;
  annotations?: Annotations;
  _meta?: { [key: string]: unknown };
}

/** @category Content */
export interface AudioContent {
  type: "audio";
  /** @format byte */
  data: string;
  mimeType: string;
  annotations?: Annotations;
  _meta?: { [key: string]: unknown };
}

/** @category `sampling/createMessage` */
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

/** @category `sampling/createMessage` */
export interface ModelHint {
  name?: string;
}

/** @category `completion/complete` */
export interface CompleteRequest extends Request {
  method: "completion/complete";
  params: {
    ref: PromptReference | ResourceTemplateReference;
    argument: {
      name: string;
      value: string;
    };
    context?: {
      arguments?: { [key: string]: string };
    };
  };
}

/** @category `completion/complete` */
export interface CompleteResult extends Result {
  completion: {
    values: string[];
    total?: number;
    hasMore?: boolean;
  };
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

/** @category `roots/list` */
export interface ListRootsRequest extends Request {
  method: "roots/list";
}

/** @category `roots/list` */
export interface ListRootsResult extends Result {
  roots: Root[];
}

/** @category `roots/list` */
export interface Root {
  /** @format uri */
  uri: string;
  name?: string;
  _meta?: { [key: string]: unknown };
}

/** @category `notifications/roots/list_changed` */
export interface RootsListChangedNotification extends Notification {
  method: "notifications/roots/list_changed";
}

/** @category `elicitation/create` */
export interface ElicitRequest extends Request {
  method: "elicitation/create";
  params: {
    message: string;
    requestedSchema: {
      type: "object";
      properties: { [key: string]: PrimitiveSchemaDefinition };
      required?: string[];
    };
  };
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
}

/** @category `elicitation/create` */
export interface BooleanSchema {
  type: "boolean";
  title?: string;
  description?: string;
  default?: boolean;
}

/** @category `elicitation/create` */
export interface EnumSchema {
  type: "string";
  title?: string;
  description?: string;
  enum: string[];
  enumNames?: string[];
}

/** @category `elicitation/create` */
export interface ElicitResult extends Result {
  action: "accept" | "decline" | "cancel";
  content?: { [key: string]: string | number | boolean };
}

/** @internal */
export type ClientRequest = PingRequest | InitializeRequest | CompleteRequest | SetLevelRequest | GetPromptRequest | ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest | SubscribeRequest | UnsubscribeRequest | CallToolRequest | ListToolsRequest;

/** @internal */
export type ClientNotification = CancelledNotification | ProgressNotification | InitializedNotification | RootsListChangedNotification;

/** @internal */
export type ClientResult = EmptyResult | CreateMessageResult | ListRootsResult | ElicitResult;

/** @internal */
export type ServerRequest = PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest;

/** @internal */
export type ServerNotification = CancelledNotification | ProgressNotification | LoggingMessageNotification | ResourceUpdatedNotification | ResourceListChangedNotification | ToolListChangedNotification | PromptListChangedNotification;

/** @internal */
export type ServerResult = EmptyResult | InitializeResult | CompleteResult | GetPromptResult | ListPromptsResult | ListResourceTemplatesResult | ListResourcesResult | ReadResourceResult | CallToolResult | ListToolsResult;
