// A client on the TypeScript SDK that tries all that a server has: `typescript_client.mjs ROOT [MODE] http|sse URL` or
// `typescript_client.mjs ROOT [MODE] stdio COMMAND ARGUMENTS...`, where ROOT is the folder that has the release, and MODE
// is given to release 2 only. It says on stdout, case by case, what it and the server observed.

import { answer, ask, hear, refusal, sdk, split, watch } from "./typescript.mjs";

const LIMIT = 8_000;
const MEMO = "memo:///";
const given = process.argv.slice(3);
const mode = split ? given.shift() : null;
const [how, ...where] = given;
const heard = [];
const opened = {};
let news = () => {};
let refusing = false;

function add(...what) {
  heard.push(what);
  news();
}

async function until(condition) {
  while (!condition(heard)) await new Promise((wake) => { news = wake; });
}

// -- what servers ask and tell ----------------------------------------------------------------------------------------

function build() {
  const elicits = split || sdk.ElicitResultSchema ? { elicitation: { form: {}, url: {} } } : {};
  const capabilities = { sampling: { tools: {} }, roots: { listChanged: true }, ...elicits };
  const client = new sdk.Client(
    { name: "interop", version: "1.2" },
    { capabilities, ...(split ? { versionNegotiation: { mode } } : {}) },
  );
  answer(client, "sampling/createMessage", async (params) => {
    add("sampling", params);
    if (refusing) throw refusal(-1, "the user said no");
    const said = { role: "assistant", model: "mini" };
    if (params.tools) {
      const use = { type: "tool_use", id: "u1", name: params.tools[0].name, input: { a: 1, b: 2 } };
      return { ...said, content: [use], stopReason: "toolUse" };
    }
    return { ...said, content: { type: "text", text: "it" }, stopReason: "endTurn" };
  });
  answer(client, "elicitation/create", async (params) => {
    add("elicitation", params);
    const [action] = params.message.split(" ");
    if (action === "go") return { action: "accept" };
    return action === "accept" ? { action, content: { name: "ann" } } : { action };
  });
  answer(client, "roots/list", async () => {
    add("roots");
    return { roots: [{ uri: "file:///srv/ann", name: "home" }] };
  });
  hear(client, "notifications/message", ({ level, data, logger }) => add("log", level, data, logger));
  for (const what of ["tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"]) {
    const method = `notifications/${what}`;
    hear(client, method, (params) => {
      const { _meta, ...said } = params ?? {};
      add(method, Object.keys(said).length ? said : null);
    });
  }
  return client;
}

// -- calls ------------------------------------------------------------------------------------------------------------

const send = (client) => (...given) => client.request(...given);
const plain = (result) => ({ isError: false, ...result });

async function call(client, name, given, options, meta = {}) {
  const params = { name, arguments: given ?? {}, ...(Object.keys(meta).length ? { _meta: meta } : {}) };
  return plain(await ask(send(client), "tools/call", params, options));
}

const journal = async (client) => JSON.parse((await call(client, "journal")).content[0].text);

async function outcome(work) {
  try {
    return await work;
  } catch (error) {
    const message = error.message.replace(/^MCP error -?\d+: /, "");
    return { code: error.code, message, data: error.data ?? null };
  }
}

async function untilNoted(client, what) {
  for (;;) {
    const found = (await journal(client)).filter((entry) => entry.what === what);
    if (found.length) return found;
  }
}

async function pages(client, kind) {
  const sizes = [], items = [];
  let params = {};
  for (;;) {
    const result = await ask(send(client), `${kind}/list`, params);
    sizes.push(result[kind].length);
    items.push(...result[kind]);
    if (result.nextCursor === undefined) return { sizes, items };
    params = { cursor: result.nextCursor };
  }
}

// -- cases ------------------------------------------------------------------------------------------------------------

let revision;
const newest = () => split && revision >= "2026";

const cases = {
  async who(client) {
    await call(client, "who");
    return newest()
      ? {
        protocolVersion: revision,
        serverInfo: client.getServerVersion(),
        instructions: client.getInstructions(),
        capabilities: client.getServerCapabilities(),
      }
      : opened;
  },
  ping: async (client) => (newest() ? null : client.ping()),
  tools: (client) => pages(client, "tools"),
  echo: (client) => call(client, "echo", { text: "héllo\n" }, undefined, { "com.example/trace": "t1" }),
  async many(client) {
    const numbers = [...Array(20).keys()].map(String);
    const results = await Promise.all(numbers.map((text) => call(client, "echo", { text })));
    return results.map((result) => result.content[0].text);
  },
  structured: (client) => call(client, "add", { a: 1, b: 2.5 }),
  failing: (client) => call(client, "fail"),
  refused: async (client) => [await outcome(call(client, "refuse")), await outcome(call(client, "nobody"))],
  async progress(client) {
    if (revision > "2025") {
      const onprogress = ({ progress, total, message }) => add("told", progress, total ?? null, message ?? null);
      await call(client, "progress", {}, { onprogress });
      return null;
    }
    hear(client, "notifications/progress", (params) => add("progress", params));
    await call(client, "progress", {}, undefined, { progressToken: "p1" });
    return null;
  },
  async logs(client) {
    if (newest()) {
      await call(client, "log", {}, undefined, { "io.modelcontextprotocol/logLevel": "info" });
      return null;
    }
    await client.setLoggingLevel("info");
    await call(client, "log");
    await client.setLoggingLevel("debug");
    return null;
  },
  async silence(client) {
    await call(client, "log");
    return null;
  },
  async cancelled(client) {
    const stop = new AbortController();
    const waiting = outcome(call(client, "wait", {}, { signal: stop.signal }));
    await untilNoted(client, "waiting");
    stop.abort();
    const stopped = await untilNoted(client, "stopped");
    await waiting;
    const after = (await call(client, "echo", { text: "still there" })).content[0].text;
    return { stopped, after };
  },
  async resources(client) {
    return {
      ...(await pages(client, "resources")),
      templates: (await client.listResourceTemplates()).resourceTemplates,
      text: await client.readResource({ uri: `${MEMO}one` }),
      bytes: await client.readResource({ uri: `${MEMO}bytes` }),
      missing: await outcome(client.readResource({ uri: `${MEMO}unknown` })),
    };
  },
  async changes(client) {
    if (newest()) {
      const one = await client.listen({ toolsListChanged: true, resourceSubscriptions: [`${MEMO}one`] });
      const other = await client.listen({ promptsListChanged: true });
      await call(client, "change");
      await until((said) => said.length === 3);
      await one.close();
      await other.close();
      const names = { tools: "ToolsListChanged()", prompts: "PromptsListChanged()" };
      const events = heard.map(([method, params]) =>
        params ? `ResourceUpdated(uri='${params.uri}')` : names[method.split("/")[1]]);
      // Which of the streams told of it is not seen: what the first was asked for goes first.
      const [last] = events.splice(events.indexOf(names.prompts), 1);
      return { honored: one.honoredFilter, events: [...events, last] };
    }
    await client.subscribeResource({ uri: `${MEMO}one` });
    await call(client, "change");
    await until((said) => said.length === 4);
    await client.unsubscribeResource({ uri: `${MEMO}one` });
    await call(client, "change");
    await until((said) => said.length === 7);
    return null;
  },
  async prompts(client) {
    const prompt = await client.getPrompt({ name: "greet", arguments: { name: "ann" } });
    return { ...(await pages(client, "prompts")), prompt };
  },
  async completion(client) {
    const argument = { name: "name", value: "an" };
    const more = split || sdk.ElicitResultSchema ? { context: { arguments: { tone: "warm" } } } : {};
    const found = await client.complete({ ref: { type: "ref/prompt", name: "greet" }, argument, ...more });
    const ref = { type: "ref/resource", uri: `${MEMO}{name}` };
    await client.complete({ ref, argument: { name: "name", value: "o" } });
    return found.completion;
  },
  sample: (client) => call(client, "sample"),
  async sample_refused(client) {
    refusing = true;
    try {
      return await outcome(call(client, "sample"));
    } finally {
      refusing = false;
    }
  },
  async signed(client) {
    const prompt = await client.getPrompt({ name: "bare" });
    const resource = await client.readResource({ uri: `${MEMO}signed` });
    return { prompt: prompt.messages, resource: resource.contents };
  },
  sample_tools: (client) => outcome(call(client, "sample_tools")),
  async elicit(client) {
    const found = [];
    for (const action of ["accept", "decline", "cancel"]) {
      found.push(await outcome(call(client, "elicit", { message: `${action} this` })));
    }
    return found;
  },
  elicit_url: (client) => outcome(call(client, "elicit_url")),
  async roots(client) {
    const found = await call(client, "roots");
    if (!newest()) await client.sendRootsListChanged();
    return found;
  },
};

// -- the run ----------------------------------------------------------------------------------------------------------

function transport() {
  if (how === "stdio") return new sdk.StdioClientTransport({ command: where[0], args: where.slice(1) });
  const Transport = how === "sse" ? sdk.SSEClientTransport : sdk.StreamableHTTPClientTransport;
  return new Transport(new URL(where[0]));
}

function limited(work) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error("the case took too long")), LIMIT);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

async function main() {
  const client = build();
  await client.connect(watch(transport(), ({ result }) => {
    if (result?.protocolVersion) Object.assign(opened, result);
  }));
  revision = (split ? client.getNegotiatedProtocolVersion() : undefined) ?? opened.protocolVersion;
  const wanted = process.env.CASES?.split(",");
  for (const [name, run] of Object.entries(cases)) {
    if (wanted && !wanted.includes(name)) continue;
    const said = { case: name };
    try {
      await limited((async () => {
        await journal(client);
        heard.length = 0;
        const saw = await run(client);
        Object.assign(said, { saw: saw ?? null, heard: structuredClone(heard), noted: await journal(client) });
      })());
    } catch (error) {
      said.failed = error.stack;
    }
    process.stdout.write(`${JSON.stringify(said)}\n`);
  }
  await client.close();
  process.exit(0);
}

await main();
