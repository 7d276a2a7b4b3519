// The contract of https://github.com/modelcontextprotocol/ext-tasks/blob/b30c47738bde0a0f8a4ae1c4808f975d7c0a86c0/schema/draft/schema.ts, without its prose.
// Written by `mcprev import`; not edited by hand.

import type {
  Error,
  InputRequests,
  InputResponses,
  JSONRPCNotification,
  JSONRPCRequest,
  NotificationParams,
  Result,
} from "../../../draft/schema.js";

/** @category `tasks` */
export type TaskStatus = "working" | "input_required" | "completed" | "failed" | "cancelled";

/** @category `tasks` */
export interface Task {
  taskId: string;
  status: TaskStatus;
  statusMessage?: string;
  createdAt: string;
  lastUpdatedAt: string;
  /**
   * @nullable
   * @format int
   */
  ttlMs: number | null;
  /** @format int */
  pollIntervalMs?: number;
}

/** @category `tasks` */
export interface WorkingTask extends Task {
  status: "working";
}

/** @category `tasks` */
export interface InputRequiredTask extends Task {
  status: "input_required";
  inputRequests: InputRequests;
}

/** @category `tasks` */
export interface CompletedTask extends Task {
  status: "completed";
  result: { [key: string]: unknown };
}

/** @category `tasks` */
export interface FailedTask extends Task {
  status: "failed";
  error: Error;
}

/** @category `tasks` */
export interface CancelledTask extends Task {
  status: "cancelled";
}

/** @category `tasks` */
export type DetailedTask = WorkingTask | InputRequiredTask | CompletedTask | FailedTask | CancelledTask;

/** @category `tasks` */
export type CreateTaskResult = Result & Task & {
  resultType: "task";
};

/** @category `tasks` */
export type RelatedTaskIds = string[];

/** @category `tasks/get` */
export type GetTaskRequest = JSONRPCRequest & {
  method: "tasks/get";
  params: {
    taskId: string;
  };
};

/** @category `tasks/get` */
export type GetTaskResult = Result & DetailedTask & {
  resultType: "complete";
};

/** @category `tasks/update` */
export type UpdateTaskRequest = JSONRPCRequest & {
  method: "tasks/update";
  params: {
    taskId: string;
    inputResponses: InputResponses;
  };
};

/** @category `tasks/update` */
export type UpdateTaskResult = Result & {
  resultType: "complete";
};

/** @category `tasks/cancel` */
export type CancelTaskRequest = JSONRPCRequest & {
  method: "tasks/cancel";
  params: {
    taskId: string;
  };
};

/** @category `tasks/cancel` */
export type CancelTaskResult = Result & {
  resultType: "complete";
};

/** @category `notifications/tasks` */
export type TaskStatusNotificationParams = NotificationParams & DetailedTask & { [key: string]: unknown };

/** @category `notifications/tasks` */
export type TaskStatusNotification = JSONRPCNotification & {
  method: "notifications/tasks";
  params: TaskStatusNotificationParams;
};

/** @category `subscriptions` */
export interface TaskSubscriptionNotifications {
  taskIds?: string[];
}

/** @category `subscriptions` */
export interface TaskSubscriptionAcknowledgedNotifications {
  taskIds?: string[];
}

/** @category `tasks` */
export type TasksExtensionCapability = Record<string, never>;
