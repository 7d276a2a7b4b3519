// A server on the TypeScript SDK that uses all of its low-level API: `typescript_server.mjs ROOT [http|sse]`, where ROOT is
// the folder that has the release. It keeps a journal of what it observes, which the tool `journal` hands out.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { answer, ask, hear, refusal, sdk, split, watch } from "./typescript.mjs";

const PAGE = 5;
const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const RESOURCES = { "memo:///one": { text: "one" }, "memo:///bytes": { blob: "AP8=" } };
const FORM = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const SUM = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } };
const FOUND = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
const MEMO = "memo:///";
let journal = [];

function note(what, details = {}) {
  journal.push({ what, ...details });
  process.stderr.write(`noted ${what}\n`);
}

function take() {
  const taken = JSON.stringify(journal);
  journal = [];
  return taken;
}

const text = (value) => ({ type: "text", text: String(value) });
const result = (value, more = {}) => ({ content: [text(value)], ...more });

function page(items, cursor, size = 1) {
  const start = Number(cursor ?? 0), after = start + size;
  return [items.slice(start, after), after < items.length ? { nextCursor: String(after) } : {}];
}

/** What a server needs to know of its client: it is made for one session, or for one request of the newest revision. */
function build(modern, publish) {
  const server = new sdk.Server(
    { name: "everything", version: "1.0" },
    {
      instructions: "Try it all.",
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
      },
    },
  );
  const subscribed = new Set();
  const opened = {};
  let wanted = "debug";

  /** The answer to a question: at once, or in the next try of the request, for which a result asks. */
  async function asked(ctx, what, method, params, options) {
    if (!modern) return [null, await ask(ctx.send, method, params, options)];
    if (!(what in (ctx.answers ?? {}))) {
      return [sdk.inputRequired({ inputRequests: { [what]: { method, params } }, requestState: "kept" }), null];
    }
    note("state", { state: ctx.state() });
    return [null, ctx.answers[what]];
  }

  async function question(ctx, what, method, params, options) {
    let asking, found;
    try {
      [asking, found] = await asked(ctx, what, method, params, options);
    } catch (error) {
      note("refused", { code: error.code, message: error.message.replace(/^MCP error -?\d+: /, "") });
      return result("done");
    }
    if (asking) return asking;
    note(what, { result: found });
    return result("done");
  }

  async function signature(ctx) {
    const [asking, found] = await asked(ctx, "roots", "roots/list", {});
    return [asking, found?.roots[0].name];
  }

  const sampling = {
    messages: [{ role: "user", content: text("say it") }],
    maxTokens: 9,
    systemPrompt: "be brief",
    temperature: 0.5,
    stopSequences: ["stop"],
    modelPreferences: { hints: [{ name: "small" }], speedPriority: 1 },
  };

  const tools = {
    echo: async (given) => result(given.text),
    add: async ({ a, b }) => result(a + b, { structuredContent: { sum: a + b } }),
    fail: async () => result("it failed", { isError: true }),
    who: async (given, { envelope }) => {
      const ours = (name) => envelope[`io.modelcontextprotocol/${name}`];
      note("who", modern
        ? { revision: ours("protocolVersion"), info: ours("clientInfo"), capabilities: ours("clientCapabilities") }
        : { revision: opened.protocolVersion, info: opened.clientInfo, capabilities: opened.capabilities });
      return result("you");
    },
    progress: async (given, { meta, notify }) => {
      const told = { progressToken: meta.progressToken };
      const method = "notifications/progress";
      const message = split || "message" in sdk.ProgressSchema.shape ? { message: "half" } : {};
      await notify({ method, params: { ...told, progress: 1, total: 2, ...message } });
      await notify({ method, params: { ...told, progress: 2 } });
      return result("done");
    },
    log: async (given, ctx) => {
      for (const level of ["debug", "info", "error"]) {
        const data = { at: level };
        if (modern) await ctx.log(level, data, "here");
        else if (LEVELS.indexOf(level) >= LEVELS.indexOf(wanted)) {
          await ctx.notify({ method: "notifications/message", params: { level, data, logger: "here" } });
        }
      }
      return result("done");
    },
    sample: (given, ctx) => question(ctx, "sampled", "sampling/createMessage", sampling),
    sample_slowly: async (given, ctx) => {
      const onprogress = ({ progress, total, message }) => note("told", { progress, total, message });
      await ask(ctx.send, "sampling/createMessage", sampling, { onprogress });
      return result("done");
    },
    sample_tools: (given, ctx) => question(ctx, "sampled", "sampling/createMessage", {
      messages: [{ role: "user", content: text("add") }],
      maxTokens: 9,
      tools: [{ name: "add", inputSchema: SUM }],
      toolChoice: { mode: "required" },
    }),
    elicit: ({ message }, ctx) =>
      question(ctx, "elicited", "elicitation/create", { message, requestedSchema: FORM }),
    elicit_url: async (given, ctx) => {
      const id = modern ? {} : { elicitationId: "e1" };
      const url = { mode: "url", message: "go there", url: "https://example.com/sign-in", ...id };
      return question(ctx, "elicited", "elicitation/create", url);
    },
    roots: (given, ctx) => question(ctx, "roots", "roots/list", {}),
    ping: async () => {
      note("ponged", { result: await server.ping() });
      return result("done");
    },
    wait: async (given, { signal }) => {
      note("waiting");
      await new Promise((done) => signal.addEventListener("abort", done));
      note("stopped");
      return result("stopped");
    },
    change: async () => {
      if (publish) {
        for (const kind of ["tools", "prompts", "resources"]) publish[`${kind}Changed`]();
        for (const uri of Object.keys(RESOURCES)) publish.resourceUpdated(uri);
        return result("done");
      }
      await server.sendToolListChanged();
      await server.sendPromptListChanged();
      await server.sendResourceListChanged();
      const uris = modern ? Object.keys(RESOURCES) : [...subscribed].sort();
      for (const uri of uris) await server.sendResourceUpdated({ uri });
      return result("done");
    },
  };

  answer(server, "tools/list", async ({ cursor }) => {
    const all = Object.keys(tools).map((name) => ({ name, inputSchema: { type: "object" } }));
    all[1] = { name: "add", description: "Adds.", inputSchema: SUM, outputSchema: FOUND };
    const [found, after] = page(all, cursor, PAGE);
    return { tools: found, ...after };
  });
  answer(server, "tools/call", async ({ name, arguments: given }, ctx) => {
    if (name === "journal") return result(take());
    note("call", { tool: name, arguments: given, meta: ctx.meta ?? {} });
    return name in tools ? tools[name](given ?? {}, ctx) : result(`no tool ${name}`, { isError: true });
  });
  answer(server, "resources/list", async ({ cursor }) => {
    const [resources, after] = page(Object.keys(RESOURCES).map((uri) => ({ uri, name: uri.slice(MEMO.length) })), cursor);
    return { resources, ...after };
  });
  answer(server, "resources/templates/list", async () => ({
    resourceTemplates: [{ uriTemplate: "memo:///{name}", name: "memo", mimeType: "text/plain" }],
  }));
  answer(server, "resources/read", async ({ uri }, ctx) => {
    note("read", { uri });
    let content = RESOURCES[uri];
    if (uri === "memo:///signed") {
      const [asking, name] = await signature(ctx);
      if (asking) return asking;
      content = { text: name };
    }
    if (!content) throw refusal(modern ? -32602 : -32002, "no such memo", { uri });
    const cached = modern ? { ttlMs: 5, cacheScope: "private" } : {};
    return { contents: [{ uri, mimeType: "text/x-memo", ...content }], ...cached };
  });
  answer(server, "resources/subscribe", async ({ uri }) => {
    note("subscribed", { uri });
    subscribed.add(uri);
    return {};
  });
  answer(server, "resources/unsubscribe", async ({ uri }) => {
    note("unsubscribed", { uri });
    subscribed.delete(uri);
    return {};
  });
  answer(server, "prompts/list", async ({ cursor }) => {
    const asks = [{ name: "name", description: "Whom to greet.", required: true }];
    const all = [{ name: "greet", description: "Greets.", arguments: asks }, { name: "bare" }];
    const [prompts, after] = page(all, cursor);
    return { prompts, ...after };
  });
  answer(server, "prompts/get", async ({ name, arguments: given }, ctx) => {
    note("prompt", { name, arguments: given ?? null });
    let whom = given?.name;
    if (name === "bare") {
      let asking;
      [asking, whom] = await signature(ctx);
      if (asking) return asking;
    }
    return { description: "A greeting.", messages: [{ role: "user", content: text(`hello ${whom}`) }] };
  });
  answer(server, "completion/complete", async ({ ref, argument, context }) => {
    note("complete", { ref, argument, context: context ?? null });
    return { completion: { values: [`${argument.value}x`], total: 7, hasMore: true } };
  });
  if (!modern) {
    answer(server, "logging/setLevel", async ({ level }) => {
      note("level", { level });
      wanted = level;
      return {};
    });
    hear(server, "notifications/roots/list_changed", () => note("roots changed"));
  }
  return [server, opened];
}

const listens = new Map();

/** Notes what the SDK serves by itself, and what a session is opened with. */
function observe(opened) {
  return ({ id, method, params }) => {
    if (method === "initialize") Object.assign(opened, params);
    if (method === "subscriptions/listen") {
      listens.set(id, true);
      note("listening", { wants: params.notifications });
    }
    if (method === "notifications/cancelled" && listens.delete(params.requestId)) note("listened");
  };
}

async function overStdio() {
  const spied = {};
  const transport = watch(new sdk.StdioServerTransport(), observe(spied));
  const made = (modern) => {
    const [server, opened] = build(modern, null);
    Object.setPrototypeOf(opened, spied);
    return server;
  };
  if (split) sdk.serveStdio(({ era }) => made(era === "modern"), { transport });
  else await made(false).connect(transport);
}

async function listen(path, serve) {
  const http = createServer((request, response) => {
    serve(request, response).catch((error) => {
      process.stderr.write(`${error.stack}\n`);
      response.destroy();
    });
  });
  await new Promise((listening) => http.listen(0, "127.0.0.1", listening));
  process.stdout.write(`http://127.0.0.1:${http.address().port}${path}\n`);
}

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return parts.length ? JSON.parse(Buffer.concat(parts)) : undefined;
}

async function overHttp() {
  const Transport = split ? sdk.NodeStreamableHTTPServerTransport : sdk.StreamableHTTPServerTransport;
  const sessions = new Map();
  const modern = (options) => {
    const handler = sdk.createMcpHandler(
      ({ era }) => build(era === "modern", era === "modern" ? handler.notify : null)[0],
      { legacy: "reject", ...options },
    );
    return sdk.toNodeHandler(handler);
  };
  const newest = split && { "/mcp": modern({}), "/json": modern({ responseMode: "json" }), "/stateless": modern({}) };

  async function session(options) {
    const [server, opened] = build(false, null);
    const transport = new Transport(options);
    await server.connect(watch(transport, observe(opened)));
    return transport;
  }

  async function sessional(path, request, response, message) {
    const known = sessions.get(request.headers["mcp-session-id"]);
    if (known) return known.handleRequest(request, response, message);
    const transport = await session({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: path === "/json",
      onsessioninitialized: (id) => sessions.set(id, transport),
    });
    return transport.handleRequest(request, response, message);
  }

  await listen("/mcp", async (request, response) => {
    const path = request.url;
    const message = await body(request);
    const said = message?.params?._meta?.["io.modelcontextprotocol/protocolVersion"];
    if (split && said) {
      if (message.method === "subscriptions/listen") {
        note("listening", { wants: message.params.notifications });
        response.on("close", () => note("listened"));
      }
      return newest[path](request, response, message);
    }
    if (path === "/stateless") {
      return (await session({ sessionIdGenerator: undefined })).handleRequest(request, response, message);
    }
    return sessional(path, request, response, message);
  });
}

async function overSse() {
  const sessions = new Map();
  await listen("/sse", async (request, response) => {
    const { searchParams } = new URL(request.url, "http://127.0.0.1");
    if (request.method === "POST") {
      const known = sessions.get(searchParams.get("sessionId"));
      return known ? known.handlePostMessage(request, response) : response.writeHead(405).end();
    }
    const transport = new sdk.SSEServerTransport("/messages", response);
    sessions.set(transport.sessionId, transport);
    const [server, opened] = build(false, null);
    return server.connect(watch(transport, observe(opened)));
  });
}

await { stdio: overStdio, http: overHttp, sse: overSse }[process.argv[3] ?? "stdio"]();
