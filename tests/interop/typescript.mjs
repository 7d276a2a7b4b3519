// What the scripts on the TypeScript SDK share: one way to speak the APIs of its releases 1 and 2, and the journal.

import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const SDK = "@modelcontextprotocol/";
const [root] = process.argv.slice(2);
const installed = createRequire(join(root, "package.json"));
export const split = existsSync(join(root, "node_modules", SDK, "server"));
const one = (path) => installed(`${SDK}sdk/${path}.js`);
const have = (path) => existsSync(join(root, "node_modules", SDK, "sdk/dist", `${path}.js`))
  || readdirSync(join(root, "node_modules", SDK, "sdk/dist")).some((kind) =>
    existsSync(join(root, "node_modules", SDK, "sdk/dist", kind, `${path}.js`)));

/** Everything that is exported, whichever packages and modules it comes from. */
export const sdk = split
  ? { ...installed(`${SDK}client`), ...installed(`${SDK}client/stdio`), ...installed(`${SDK}server`),
    ...installed(`${SDK}server/stdio`), ...installed(`${SDK}node`) }
  : Object.assign({}, ...["types", "client/index", "client/stdio", "client/sse", "client/streamableHttp", "server/index",
    "server/stdio", "server/sse", "server/streamableHttp"].filter(have).map(one));

const schemas = split ? {} : Object.fromEntries(
  Object.entries(sdk)
    .filter(([name, schema]) => /(Request|Notification)Schema$/.test(name) && schema.shape?.method?.value)
    .map(([, schema]) => [schema.shape.method.value, schema]),
);
const RESULTS = {
  "sampling/createMessage": ["CreateMessageResultWithToolsSchema", "CreateMessageResultSchema"],
  "elicitation/create": ["ElicitResultSchema"],
  "roots/list": ["ListRootsResultSchema"],
  "tools/call": ["CallToolResultSchema"],
  "tools/list": ["ListToolsResultSchema"],
  "prompts/list": ["ListPromptsResultSchema"],
  "resources/list": ["ListResourcesResultSchema"],
};

/** Sends a request, by a peer or by the request that it belongs to. */
export function ask(send, method, params, options) {
  const schema = RESULTS[method].map((name) => sdk[name]).find(Boolean);
  return split ? send({ method, params }, options) : send({ method, params }, schema, options);
}

/** Registers what answers a method; the handler is given the params, and what all releases know of the request. */
export function answer(peer, method, handler) {
  if (split) {
    peer.setRequestHandler(method, (request, { mcpReq }) => {
      const { signal, _meta, envelope, inputResponses, requestState, log } = mcpReq;
      const context = { signal, meta: _meta, envelope, answers: inputResponses, state: requestState, log };
      return handler(request.params ?? {}, { ...context, notify: mcpReq.notify, send: mcpReq.send });
    });
  } else if (schemas[method]) {
    peer.setRequestHandler(schemas[method], (request, extra) => handler(request.params ?? {}, {
      signal: extra.signal,
      meta: request.params?._meta,
      notify: extra.sendNotification ?? ((notification) => peer.notification(notification)),
      send: extra.sendRequest ?? ((...given) => peer.request(...given)),
    }));
  }
}

/** Registers what hears of a notification. */
export function hear(peer, method, handler) {
  if (split || schemas[method]) {
    peer.setNotificationHandler(split ? method : schemas[method], (said) => handler(said.params ?? null));
  }
}

/** Shows each message that a transport receives to a function, before the SDK has it. */
export function watch(transport, spy) {
  const inherited = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(transport), "onmessage");
  let given;
  Object.defineProperty(transport, "onmessage", {
    get: () => (inherited ? inherited.get.call(transport) : given),
    set: (handler) => {
      const seen = handler && ((...message) => { spy(message[0]); return handler(...message); });
      if (inherited) inherited.set.call(transport, seen);
      else given = seen;
    },
  });
  return transport;
}

/** An error with a code, as one that is to be answered with it. */
export const refusal = (code, message, data) => Object.assign(new Error(message), { code, data });

