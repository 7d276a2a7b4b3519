// Written from the text of https://github.com/modelcontextprotocol/modelcontextprotocol/blob/5eb686281f333acf837a6153db83eb5867d7db1a/seps/0000-events-extension.md, which has no schema.ts.
// Written by `mcprev import`; not edited by hand.

import type {
  Error,
  JSONRPCNotification,
  JSONRPCRequest,
  MetaObject,
  NotificationMetaObject,
  NotificationParams,
  PaginatedRequest,
  PaginatedResult,
  RequestId,
  RequestParams,
  Result,
  ResultMetaObject,
} from "../../../2026-07-28/schema.js";

export const NOT_FOUND = -32023;

export const FORBIDDEN = -32024;

export const RESOURCE_EXHAUSTED = -32025;

export const UNSUPPORTED = -32026;

export const CALLBACK_ENDPOINT_ERROR = -32027;

/** @category Errors */
export interface NotFoundErrorData {
  kind: "event" | "subscription";
}

/** @category Errors */
export interface ResourceExhaustedErrorData {
  limit?: unknown;
  max?: unknown;
}

/** @category Errors */
export interface UnsupportedErrorData {
  feature: string;
  value?: unknown;
  reason?: string;
}

/** @category Errors */
export interface CallbackEndpointErrorData {
  reason: string;
}

/** @category Events */
export interface EventsExtensionCapability {
  listChanged?: boolean;
}

/** @category Events */
export type DeliveryMode = "poll" | "push" | "webhook";

/** @category Events */
export interface EventType {
  name: string;
  description?: string;
  /** @minItems 1 */
  delivery: DeliveryMode[];
  inputSchema: { [key: string]: unknown };
  payloadSchema: { [key: string]: unknown };
  _meta?: MetaObject;
}

/** @category Events */
export interface EventOccurrence {
  eventId: string;
  name: string;
  /** @format date-time */
  timestamp: string;
  data: { [key: string]: unknown };
  cursor?: string | null;
  _meta?: MetaObject;
}

/** @category `events/list` */
export interface ListEventsRequest extends PaginatedRequest {
  method: "events/list";
}

/** @category `events/list` */
export interface ListEventsResult extends PaginatedResult {
  events: EventType[];
}

/** @category Events */
export interface EventsRequestParams extends RequestParams {
  name: string;
  arguments?: { [key: string]: unknown };
}

/** @category Events */
export interface EventsReadRequestParams extends EventsRequestParams {
  cursor?: string | null;
  /** @minimum 0 */
  maxAgeMs?: number;
}

/** @category `events/poll` */
export interface PollEventsRequestParams extends EventsReadRequestParams {
  /** @minimum 1 */
  maxEvents?: number;
}

/** @category `events/poll` */
export interface PollEventsRequest extends JSONRPCRequest {
  method: "events/poll";
  params: PollEventsRequestParams;
}

/** @category `events/poll` */
export interface PollEventsResult extends Result {
  events: EventOccurrence[];
  cursor?: string | null;
  truncated: boolean;
  hasMore: boolean;
  /** @minimum 0 */
  nextPollMs: number;
}

/** @category `events/stream` */
export interface StreamEventsRequestParams extends EventsReadRequestParams {}

/** @category `events/stream` */
export interface StreamEventsRequest extends JSONRPCRequest {
  method: "events/stream";
  params: StreamEventsRequestParams;
}

/** @category `events/stream` */
export interface StreamEventsResultMetaObject extends ResultMetaObject {
  "io.modelcontextprotocol/subscriptionId": RequestId;
}

/** @category `events/stream` */
export interface StreamEventsResult extends Result {
  _meta: StreamEventsResultMetaObject;
}

/** @category Webhooks */
export interface WebhookTarget {
  /** @format uri */
  url: string;
}

/** @category Webhooks */
export interface WebhookDelivery extends WebhookTarget {
  mode: "webhook";
  /** @pattern ^whsec_[A-Za-z0-9+/]+={0,2}$ */
  secret: string;
}

/** @category Webhooks */
export interface DeliveryStatus {
  active: boolean;
  /** @format date-time */
  lastDeliveryAt: string | null;
  lastError: "connection_refused" | "timeout" | "tls_error" | "http_4xx" | "http_5xx" | "challenge_failed" | null;
  /** @format date-time */
  failedSince?: string;
  throttled?: boolean;
  /** @minimum 0 */
  retryAfterMs?: number;
}

/** @category `events/subscribe` */
export interface SubscribeEventsRequestParams extends EventsReadRequestParams {
  delivery: WebhookDelivery;
  /** @minimum 0 */
  ttlMs?: number | null;
}

/** @category `events/subscribe` */
export interface SubscribeEventsRequest extends JSONRPCRequest {
  method: "events/subscribe";
  params: SubscribeEventsRequestParams;
}

/** @category `events/subscribe` */
export interface SubscribeEventsResult extends Result {
  id: string;
  /** @format date-time */
  refreshBefore: string | null;
  cursor?: string | null;
  truncated: boolean;
  deliveryStatus?: DeliveryStatus;
}

/** @category `events/unsubscribe` */
export interface UnsubscribeEventsRequestParams extends EventsRequestParams {
  delivery: WebhookTarget;
}

/** @category `events/unsubscribe` */
export interface UnsubscribeEventsRequest extends JSONRPCRequest {
  method: "events/unsubscribe";
  params: UnsubscribeEventsRequestParams;
}

/** @category `events/unsubscribe` */
export interface UnsubscribeEventsResult extends Result {}

/** @category Notifications */
export interface EventsActiveNotificationParams extends NotificationParams {
  cursor?: string | null;
  truncated: boolean;
}

/** @category Notifications */
export interface EventsActiveNotification extends JSONRPCNotification {
  method: "notifications/events/active";
  params: EventsActiveNotificationParams;
}

/** @category Notifications */
export interface EventsEventNotificationParams extends EventOccurrence {
  _meta?: NotificationMetaObject;
}

/** @category Notifications */
export interface EventsEventNotification extends JSONRPCNotification {
  method: "notifications/events/event";
  params: EventsEventNotificationParams;
}

/** @category Notifications */
export interface EventsHeartbeatNotificationParams extends NotificationParams {
  cursor?: string | null;
}

/** @category Notifications */
export interface EventsHeartbeatNotification extends JSONRPCNotification {
  method: "notifications/events/heartbeat";
  params: EventsHeartbeatNotificationParams;
}

/** @category Notifications */
export interface EventsFailureNotificationParams extends NotificationParams {
  error: Error;
}

/** @category Notifications */
export interface EventsErrorNotification extends JSONRPCNotification {
  method: "notifications/events/error";
  params: EventsFailureNotificationParams;
}

/** @category Notifications */
export interface EventsTerminatedNotification extends JSONRPCNotification {
  method: "notifications/events/terminated";
  params: EventsFailureNotificationParams;
}

/** @category Notifications */
export interface EventsListChangedNotification extends JSONRPCNotification {
  method: "notifications/events/list_changed";
  params?: NotificationParams;
}

/** @category Subscriptions */
export interface EventsSubscriptionNotifications {
  eventsListChanged?: boolean;
}

/** @category Webhooks */
export interface GapEnvelope {
  type: "gap";
  cursor: string | null;
}

/** @category Webhooks */
export interface TerminatedEnvelope {
  type: "terminated";
  error: Error;
}

/** @category Webhooks */
export interface VerificationEnvelope {
  type: "verification";
  challenge: string;
}

/** @category Webhooks */
export type ControlEnvelope = GapEnvelope | TerminatedEnvelope | VerificationEnvelope;

/** @category Webhooks */
export interface VerificationResponse {
  challenge: string;
}

/** @category Webhooks */
export interface WebhookReceivers {
  receivers: string[];
}

export type ClientRequest = ListEventsRequest | PollEventsRequest | StreamEventsRequest | SubscribeEventsRequest | UnsubscribeEventsRequest;

export type ServerResult = ListEventsResult | PollEventsResult | StreamEventsResult | SubscribeEventsResult | UnsubscribeEventsResult;

export type ServerNotification = EventsActiveNotification | EventsEventNotification | EventsHeartbeatNotification | EventsErrorNotification | EventsTerminatedNotification | EventsListChangedNotification;
