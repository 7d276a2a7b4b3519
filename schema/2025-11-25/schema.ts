// The contract of https://github.com/modelcontextprotocol/modelcontextprotocol/blob/c4c367f9f58296a7053f5c78a52fd02bfbb56a49/schema/2025-11-25/schema.ts, without its prose.
// Written by `mcprev import`; not edited by hand.

/** @category JSON-RPC */
export type JSONRPCMessage = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse;

/** @internal */
export const LATEST_PROTOCOL_VERSION = "2025-11-25";

/** @internal */
export const JSONRPC_VERSION = "2.0";

/** @category Common Types */
export type ProgressToken = string | number;

/** @category Common Types */
export type Cursor = string;

/** @internal */
export interface TaskAugmentedRequestParams extends RequestParams {
  task?: TaskMetadata;
}

/** @internal */
export interface RequestParams {
  _meta?: {
    progressToken?: ProgressToken;
    [key: string]: unknown;
  };
}

/** @internal */
export interface Request {
  method: string;
  params?: { [key: string]: any };
}

/** @internal */
export interface NotificationParams {
  _meta?: { [key: string]: unknown };
}

/** @internal */
export interface Notification {
  method: string;
  params?: { [key: string]: any };
}

/** @category Common Types */
export interface Result {
  _meta?: { [key: string]: unknown };
  [key: string]: unknown;
}

/** @category Common Types */
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

/** @internal */
export const URL_ELICITATION_REQUIRED = -32042;

/** @internal */
export interface URLElicitationRequiredError extends Omit<JSONRPCErrorResponse, "error"> {
  error: Error & {
    code: typeof URL_ELICITATION_REQUIRED;
    data: {
      elicitations: ElicitRequestURLParams[];
      [key: string]: unknown;
    };
  };
}

/** @category Common Types */
export type EmptyResult = Result;

/** @category `notifications/cancelled` */
export interface CancelledNotificationParams extends NotificationParams {
  requestId?: RequestId;
  reason?: string;
}

/** @category `notifications/cancelled` */
export interface CancelledNotification extends JSONRPCNotification {
  method: "notifications/cancelled";
  params: CancelledNotificationParams;
}

/** @category `initialize` */
export interface InitializeRequestParams extends RequestParams {
  protocolVersion: string;
  capabilities: ClientCapabilities;
  clientInfo: Implementation;
}

/** @category `initialize` */
export interface InitializeRequest extends JSONRPCRequest {
  method: "initialize";
  params: InitializeRequestParams;
}

/** @category `initialize` */
export interface InitializeResult extends Result {
  protocolVersion: string;
  capabilities: ServerCapabilities;
  serverInfo: Implementation;
  instructions?: string;
}

/** @category `notifications/initialized` */
export interface InitializedNotification extends JSONRPCNotification {
  method: "notifications/initialized";
  params?: NotificationParams;
}

/** @category `initialize` */
export interface ClientCapabilities {
  experimental?: { [key: string]: object };
  roots?: {
    listChanged?: boolean;
  };
  sampling?: {
    context?: object;
    tools?: object;
  };
  elicitation?: {
    form?: object;
    url?: object;
  };
  tasks?: {
    list?: object;
    cancel?: object;
    requests?: {
      sampling?: {
        createMessage?: object;
      };
      elicitation?: {
        create?: object;
      };
    };
  };
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
  tasks?: {
    list?: object;
    cancel?: object;
    requests?: {
      tools?: {
        call?: object;
      };
    };
  };
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

/** @category `initialize` */
export interface Implementation extends BaseMetadata, Icons {
  version: string;
  description?: string;
  /** @format uri */
  websiteUrl?: string;
}

/** @category `ping` */
export interface PingRequest extends JSONRPCRequest {
  method: "ping";
  params?: RequestParams;
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

/** @internal */
export interface PaginatedRequestParams extends RequestParams {
  cursor?: Cursor;
}

/** @internal */
export interface PaginatedRequest extends JSONRPCRequest {
  params?: PaginatedRequestParams;
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

/** @internal */
export interface ResourceRequestParams extends RequestParams {
  /** @format uri */
  uri: string;
}

/** @category `resources/read` */
export interface ReadResourceRequestParams extends ResourceRequestParams {}

/** @category `resources/read` */
export interface ReadResourceRequest extends JSONRPCRequest {
  method: "resources/read";
  params: ReadResourceRequestParams;
}

/** @category `resources/read` */
export interface ReadResourceResult extends Result {
  contents: (TextResourceContents | BlobResourceContents)[];
}

/** @category `notifications/resources/list_changed` */
export interface ResourceListChangedNotification extends JSONRPCNotification {
  method: "notifications/resources/list_changed";
  params?: NotificationParams;
}

/** @category `resources/subscribe` */
export interface SubscribeRequestParams extends ResourceRequestParams {}

/** @category `resources/subscribe` */
export interface SubscribeRequest extends JSONRPCRequest {
  method: "resources/subscribe";
  params: SubscribeRequestParams;
}

/** @category `resources/unsubscribe` */
export interface UnsubscribeRequestParams extends ResourceRequestParams {}

/** @category `resources/unsubscribe` */
export interface UnsubscribeRequest extends JSONRPCRequest {
  method: "resources/unsubscribe";
  params: UnsubscribeRequestParams;
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
  _meta?: { [key: string]: unknown };
}

/** @category `resources/templates/list` */
export interface ResourceTemplate extends BaseMetadata, Icons {
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
export interface GetPromptRequestParams extends RequestParams {
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

/** @category `prompts/list` */
export interface Prompt extends BaseMetadata, Icons {
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
export interface PromptListChangedNotification extends JSONRPCNotification {
  method: "notifications/prompts/list_changed";
  params?: NotificationParams;
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
export interface CallToolRequestParams extends TaskAugmentedRequestParams {
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
export interface ToolExecution {
  taskSupport?: "forbidden" | "optional" | "required";
}

/** @category `tools/list` */
export interface Tool extends BaseMetadata, Icons {
  description?: string;
  inputSchema: {
    $schema?: string;
    type: "object";
    properties?: { [key: string]: object };
    required?: string[];
  };
  execution?: ToolExecution;
  outputSchema?: {
    $schema?: string;
    type: "object";
    properties?: { [key: string]: object };
    required?: string[];
  };
  annotations?: ToolAnnotations;
  _meta?: { [key: string]: unknown };
}

/** @category `tasks` */
export type TaskStatus = "working" | "input_required" | "completed" | "failed" | "cancelled";

/** @category `tasks` */
export interface TaskMetadata {
  ttl?: number;
}

/** @category `tasks` */
export interface RelatedTaskMetadata {
  taskId: string;
}

/** @category `tasks` */
export interface Task {
  taskId: string;
  status: TaskStatus;
  statusMessage?: string;
  createdAt: string;
  lastUpdatedAt: string;
  /** @nullable */
  ttl: number | null;
  pollInterval?: number;
}

/** @category `tasks` */
export interface CreateTaskResult extends Result {
  task: Task;
}

/** @category `tasks/get` */
export interface GetTaskRequest extends JSONRPCRequest {
  method: "tasks/get";
  params: {
    taskId: string;
  };
}

/** @category `tasks/get` */
export type GetTaskResult = Result & Task;

/** @category `tasks/result` */
export interface GetTaskPayloadRequest extends JSONRPCRequest {
  method: "tasks/result";
  params: {
    taskId: string;
  };
}

/** @category `tasks/result` */
export interface GetTaskPayloadResult extends Result { [key: string]: unknown }

/** @category `tasks/cancel` */
export interface CancelTaskRequest extends JSONRPCRequest {
  method: "tasks/cancel";
  params: {
    taskId: string;
  };
}

/** @category `tasks/cancel` */
export type CancelTaskResult = Result & Task;

/** @category `tasks/list` */
export interface ListTasksRequest extends PaginatedRequest {
  method: "tasks/list";
}

/** @category `tasks/list` */
export interface ListTasksResult extends PaginatedResult {
  tasks: Task[];
}

/** @category `notifications/tasks/status` */
export type TaskStatusNotificationParams = NotificationParams & Task;

/** @category `notifications/tasks/status` */
export interface TaskStatusNotification extends JSONRPCNotification {
  method: "notifications/tasks/status";
  params: TaskStatusNotificationParams;
}

/** @category `logging/setLevel` */
export interface SetLevelRequestParams extends RequestParams {
  level: LoggingLevel;
}

/** @category `logging/setLevel` */
export interface SetLevelRequest extends JSONRPCRequest {
  method: "logging/setLevel";
  params: SetLevelRequestParams;
}

/** @category `notifications/message` */
export interface LoggingMessageNotificationParams extends NotificationParams {
  level: LoggingLevel;
  logger?: string;
  data: unknown;
}

/** @category `notifications/message` */
export interface LoggingMessageNotification extends JSONRPCNotification {
  method: "notifications/message";
  params: LoggingMessageNotificationParams;
}

/** @category Common Types */
export type LoggingLevel = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";

/** @category `sampling/createMessage` */
export interface CreateMessageRequestParams extends TaskAugmentedRequestParams {
  messages: SamplingMessage[];
  modelPreferences?: ModelPreferences;
  systemPrompt?: string;
  includeContext?: "none" | "thisServer" | "allServers";
  /** @TJS-type number */
  temperature?: number;
  maxTokens: number;
  stopSequences?: string[];
  metadata?: object;
  tools?: Tool[];
  toolChoice?: ToolChoice;
}

/** @category `sampling/createMessage` */
export interface ToolChoice {
  mode?: "auto" | "required" | "none";
}

/** @category `sampling/createMessage` */
export interface CreateMessageRequest extends JSONRPCRequest {
  method: "sampling/createMessage";
  params: CreateMessageRequestParams;
}

/** @category `sampling/createMessage` */
export interface CreateMessageResult extends Result, SamplingMessage {
  model: string;
  stopReason?: "endTurn" | "stopSequence" | "maxTokens" | "toolUse" | string;
}

/** @category `sampling/createMessage` */
export interface SamplingMessage {
  role: Role;
  content: SamplingMessageContentBlock | SamplingMessageContentBlock[];
  _meta?: { [key: string]: unknown };
}

/** @category `sampling/createMessage` */
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
export interface ToolUseContent {
  type: "tool_use";
  id: string;
  name: string;
  input: { [key: string]: unknown };
  _meta?: { [key: string]: unknown };
}

/** @category `sampling/createMessage` */
export interface ToolResultContent {
  type: "tool_result";
  toolUseId: string;
  content: ContentBlock[];
  structuredContent?: { [key: string]: unknown };
  isError?: boolean;
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
export interface ListRootsRequest extends JSONRPCRequest {
  method: "roots/list";
  params?: RequestParams;
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
export interface RootsListChangedNotification extends JSONRPCNotification {
  method: "notifications/roots/list_changed";
  params?: NotificationParams;
}

/** @category `elicitation/create` */
export interface ElicitRequestFormParams extends TaskAugmentedRequestParams {
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
export interface ElicitRequestURLParams extends TaskAugmentedRequestParams {
  mode: "url";
  message: string;
  elicitationId: string;
  /** @format uri */
  url: string;
}

/** @category `elicitation/create` */
export type ElicitRequestParams = ElicitRequestFormParams | ElicitRequestURLParams;

/** @category `elicitation/create` */
export interface ElicitRequest extends JSONRPCRequest {
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
export interface ElicitResult extends Result {
  action: "accept" | "decline" | "cancel";
  content?: { [key: string]: string | number | boolean | string[] };
}

/** @category `notifications/elicitation/complete` */
export interface ElicitationCompleteNotification extends JSONRPCNotification {
  method: "notifications/elicitation/complete";
  params: {
    elicitationId: string;
  };
}

/** @internal */
export type ClientRequest = PingRequest | InitializeRequest | CompleteRequest | SetLevelRequest | GetPromptRequest | ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest | SubscribeRequest | UnsubscribeRequest | CallToolRequest | ListToolsRequest | GetTaskRequest | GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest;

/** @internal */
export type ClientNotification = CancelledNotification | ProgressNotification | InitializedNotification | RootsListChangedNotification | TaskStatusNotification;

/** @internal */
export type ClientResult = EmptyResult | CreateMessageResult | ListRootsResult | ElicitResult | GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult;

/** @internal */
export type ServerRequest = PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest | GetTaskRequest | GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest;

/** @internal */
export type ServerNotification = CancelledNotification | ProgressNotification | LoggingMessageNotification | ResourceUpdatedNotification | ResourceListChangedNotification | ToolListChangedNotification | PromptListChangedNotification | ElicitationCompleteNotification | TaskStatusNotification;

/** @internal */
export type ServerResult = EmptyResult | InitializeResult | CompleteResult | GetPromptResult | ListPromptsResult | ListResourceTemplatesResult | ListResourcesResult | ReadResourceResult | CallToolResult | ListToolsResult | GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult;
