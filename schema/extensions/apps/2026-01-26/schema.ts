// The contract of pkg:npm/%40modelcontextprotocol/ext-apps@2.0.4#dist/src/spec.types.d.ts, without its prose.
// Written by `mcprev import`; not edited by hand.

import type {
  CallToolResult,
  ContentBlock,
  EmbeddedResource,
  Implementation,
  RequestId,
  ResourceLink,
  Tool,
} from "../../../2026-07-28/schema.js";

export const LATEST_PROTOCOL_VERSION = "2026-01-26";

export type McpUiTheme = "light" | "dark";

export type McpUiDisplayMode = "inline" | "fullscreen" | "pip";

export type McpUiStyleVariableKey = "--color-background-primary" | "--color-background-secondary" | "--color-background-tertiary" | "--color-background-inverse" | "--color-background-ghost" | "--color-background-info" | "--color-background-danger" | "--color-background-success" | "--color-background-warning" | "--color-background-disabled" | "--color-text-primary" | "--color-text-secondary" | "--color-text-tertiary" | "--color-text-inverse" | "--color-text-ghost" | "--color-text-info" | "--color-text-danger" | "--color-text-success" | "--color-text-warning" | "--color-text-disabled" | "--color-border-primary" | "--color-border-secondary" | "--color-border-tertiary" | "--color-border-inverse" | "--color-border-ghost" | "--color-border-info" | "--color-border-danger" | "--color-border-success" | "--color-border-warning" | "--color-border-disabled" | "--color-ring-primary" | "--color-ring-secondary" | "--color-ring-inverse" | "--color-ring-info" | "--color-ring-danger" | "--color-ring-success" | "--color-ring-warning" | "--font-sans" | "--font-mono" | "--font-weight-normal" | "--font-weight-medium" | "--font-weight-semibold" | "--font-weight-bold" | "--font-text-xs-size" | "--font-text-sm-size" | "--font-text-md-size" | "--font-text-lg-size" | "--font-heading-xs-size" | "--font-heading-sm-size" | "--font-heading-md-size" | "--font-heading-lg-size" | "--font-heading-xl-size" | "--font-heading-2xl-size" | "--font-heading-3xl-size" | "--font-text-xs-line-height" | "--font-text-sm-line-height" | "--font-text-md-line-height" | "--font-text-lg-line-height" | "--font-heading-xs-line-height" | "--font-heading-sm-line-height" | "--font-heading-md-line-height" | "--font-heading-lg-line-height" | "--font-heading-xl-line-height" | "--font-heading-2xl-line-height" | "--font-heading-3xl-line-height" | "--border-radius-xs" | "--border-radius-sm" | "--border-radius-md" | "--border-radius-lg" | "--border-radius-xl" | "--border-radius-full" | "--border-width-regular" | "--shadow-hairline" | "--shadow-sm" | "--shadow-md" | "--shadow-lg";

export type McpUiStyles = {
  "--color-background-primary": string | undefined;
  "--color-background-secondary": string | undefined;
  "--color-background-tertiary": string | undefined;
  "--color-background-inverse": string | undefined;
  "--color-background-ghost": string | undefined;
  "--color-background-info": string | undefined;
  "--color-background-danger": string | undefined;
  "--color-background-success": string | undefined;
  "--color-background-warning": string | undefined;
  "--color-background-disabled": string | undefined;
  "--color-text-primary": string | undefined;
  "--color-text-secondary": string | undefined;
  "--color-text-tertiary": string | undefined;
  "--color-text-inverse": string | undefined;
  "--color-text-ghost": string | undefined;
  "--color-text-info": string | undefined;
  "--color-text-danger": string | undefined;
  "--color-text-success": string | undefined;
  "--color-text-warning": string | undefined;
  "--color-text-disabled": string | undefined;
  "--color-border-primary": string | undefined;
  "--color-border-secondary": string | undefined;
  "--color-border-tertiary": string | undefined;
  "--color-border-inverse": string | undefined;
  "--color-border-ghost": string | undefined;
  "--color-border-info": string | undefined;
  "--color-border-danger": string | undefined;
  "--color-border-success": string | undefined;
  "--color-border-warning": string | undefined;
  "--color-border-disabled": string | undefined;
  "--color-ring-primary": string | undefined;
  "--color-ring-secondary": string | undefined;
  "--color-ring-inverse": string | undefined;
  "--color-ring-info": string | undefined;
  "--color-ring-danger": string | undefined;
  "--color-ring-success": string | undefined;
  "--color-ring-warning": string | undefined;
  "--font-sans": string | undefined;
  "--font-mono": string | undefined;
  "--font-weight-normal": string | undefined;
  "--font-weight-medium": string | undefined;
  "--font-weight-semibold": string | undefined;
  "--font-weight-bold": string | undefined;
  "--font-text-xs-size": string | undefined;
  "--font-text-sm-size": string | undefined;
  "--font-text-md-size": string | undefined;
  "--font-text-lg-size": string | undefined;
  "--font-heading-xs-size": string | undefined;
  "--font-heading-sm-size": string | undefined;
  "--font-heading-md-size": string | undefined;
  "--font-heading-lg-size": string | undefined;
  "--font-heading-xl-size": string | undefined;
  "--font-heading-2xl-size": string | undefined;
  "--font-heading-3xl-size": string | undefined;
  "--font-text-xs-line-height": string | undefined;
  "--font-text-sm-line-height": string | undefined;
  "--font-text-md-line-height": string | undefined;
  "--font-text-lg-line-height": string | undefined;
  "--font-heading-xs-line-height": string | undefined;
  "--font-heading-sm-line-height": string | undefined;
  "--font-heading-md-line-height": string | undefined;
  "--font-heading-lg-line-height": string | undefined;
  "--font-heading-xl-line-height": string | undefined;
  "--font-heading-2xl-line-height": string | undefined;
  "--font-heading-3xl-line-height": string | undefined;
  "--border-radius-xs": string | undefined;
  "--border-radius-sm": string | undefined;
  "--border-radius-md": string | undefined;
  "--border-radius-lg": string | undefined;
  "--border-radius-xl": string | undefined;
  "--border-radius-full": string | undefined;
  "--border-width-regular": string | undefined;
  "--shadow-hairline": string | undefined;
  "--shadow-sm": string | undefined;
  "--shadow-md": string | undefined;
  "--shadow-lg": string | undefined;
};

export interface McpUiOpenLinkRequest {
  method: "ui/open-link";
  params: {
    url: string;
  };
}

export interface McpUiOpenLinkResult {
  isError?: boolean;
  [key: string]: unknown;
}

export interface McpUiDownloadFileRequest {
  method: "ui/download-file";
  params: {
    contents: (EmbeddedResource | ResourceLink)[];
  };
}

export interface McpUiDownloadFileResult {
  isError?: boolean;
  [key: string]: unknown;
}

export interface McpUiMessageRequest {
  method: "ui/message";
  params: {
    role: "user";
    content: ContentBlock[];
  };
}

export interface McpUiMessageResult {
  isError?: boolean;
  [key: string]: unknown;
}

/** @internal */
export interface McpUiSandboxProxyReadyNotification {
  method: "ui/notifications/sandbox-proxy-ready";
  params: {};
}

/** @internal */
export interface McpUiSandboxResourceReadyNotification {
  method: "ui/notifications/sandbox-resource-ready";
  params: {
    html: string;
    sandbox?: string;
    csp?: McpUiResourceCsp;
    permissions?: McpUiResourcePermissions;
  };
}

export interface McpUiSizeChangedNotification {
  method: "ui/notifications/size-changed";
  params: {
    width?: number;
    height?: number;
  };
}

export interface McpUiToolInputNotification {
  method: "ui/notifications/tool-input";
  params: {
    arguments?: Record<string, unknown>;
  };
}

export interface McpUiToolInputPartialNotification {
  method: "ui/notifications/tool-input-partial";
  params: {
    arguments?: Record<string, unknown>;
  };
}

export interface McpUiToolResultNotification {
  method: "ui/notifications/tool-result";
  params: CallToolResult;
}

export interface McpUiToolCancelledNotification {
  method: "ui/notifications/tool-cancelled";
  params: {
    reason?: string;
  };
}

export interface McpUiHostCss {
  fonts?: string;
}

export interface McpUiHostStyles {
  variables?: McpUiStyles;
  css?: McpUiHostCss;
}

export interface McpUiHostContext {
  toolInfo?: {
    id?: RequestId;
    tool: Tool;
  };
  theme?: McpUiTheme;
  styles?: McpUiHostStyles;
  displayMode?: McpUiDisplayMode;
  availableDisplayModes?: McpUiDisplayMode[];
  containerDimensions?: ({
    height: number;
  } | {
    maxHeight?: number;
  }) & ({
    width: number;
  } | {
    maxWidth?: number;
  });
  locale?: string;
  timeZone?: string;
  userAgent?: string;
  platform?: "web" | "desktop" | "mobile";
  deviceCapabilities?: {
    touch?: boolean;
    hover?: boolean;
  };
  safeAreaInsets?: {
    top: number;
    right: number;
    bottom: number;
    left: number;
  };
  [key: string]: unknown;
}

export interface McpUiHostContextChangedNotification {
  method: "ui/notifications/host-context-changed";
  params: McpUiHostContext;
}

export interface McpUiUpdateModelContextRequest {
  method: "ui/update-model-context";
  params: {
    content?: ContentBlock[];
    structuredContent?: Record<string, unknown>;
  };
}

export interface McpUiResourceTeardownRequest {
  method: "ui/resource-teardown";
  params: {};
}

export interface McpUiResourceTeardownResult { [key: string]: unknown }

export interface McpUiSupportedContentBlockModalities {
  text?: {};
  image?: {};
  audio?: {};
  resource?: {};
  resourceLink?: {};
  structuredContent?: {};
}

export interface McpUiRequestTeardownNotification {
  method: "ui/notifications/request-teardown";
  params?: {};
}

export interface McpUiHostCapabilities {
  experimental?: Record<string, object>;
  openLinks?: {};
  downloadFile?: {};
  serverTools?: {
    listChanged?: boolean;
  };
  serverResources?: {
    listChanged?: boolean;
  };
  logging?: {};
  sandbox?: {
    permissions?: McpUiResourcePermissions;
    csp?: McpUiResourceCsp;
  };
  updateModelContext?: McpUiSupportedContentBlockModalities;
  message?: McpUiSupportedContentBlockModalities;
  sampling?: {
    tools?: {};
  };
}

export interface McpUiAppCapabilities {
  experimental?: Record<string, object>;
  tools?: {
    listChanged?: boolean;
  };
  availableDisplayModes?: McpUiDisplayMode[];
}

export interface McpUiInitializeRequest {
  method: "ui/initialize";
  params: {
    appInfo: Implementation;
    appCapabilities: McpUiAppCapabilities;
    protocolVersion: string;
  };
}

export interface McpUiInitializeResult {
  protocolVersion: string;
  hostInfo: Implementation;
  hostCapabilities: McpUiHostCapabilities;
  hostContext: McpUiHostContext;
  [key: string]: unknown;
}

export interface McpUiInitializedNotification {
  method: "ui/notifications/initialized";
  params?: {};
}

export interface McpUiResourceCsp {
  connectDomains?: string[];
  resourceDomains?: string[];
  frameDomains?: string[];
  baseUriDomains?: string[];
}

export interface McpUiResourcePermissions {
  camera?: {};
  microphone?: {};
  geolocation?: {};
  clipboardWrite?: {};
}

export interface McpUiResourceMeta {
  csp?: McpUiResourceCsp;
  permissions?: McpUiResourcePermissions;
  domain?: string;
  prefersBorder?: boolean;
}

export interface McpUiRequestDisplayModeRequest {
  method: "ui/request-display-mode";
  params: {
    mode: McpUiDisplayMode;
  };
}

export interface McpUiRequestDisplayModeResult {
  mode: McpUiDisplayMode;
  [key: string]: unknown;
}

export type McpUiToolVisibility = "model" | "app";

export interface McpUiToolMeta {
  resourceUri?: string;
  visibility?: McpUiToolVisibility[];
  csp?: never;
  permissions?: never;
}

export interface McpUiClientCapabilities {
  mimeTypes?: string[];
}
