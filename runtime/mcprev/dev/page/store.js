// What the page knows: summaries of all events, and the newest state of the target, its lists, calls, questions, tasks and
// logs. The process tells them in one stream; views are told which channel changed.

import * as api from "./api.js";

/** The most that is held: the process keeps the rest, and a saved session has all. */
export const BOUNDS = { events: 200_000, logs: 5_000, calls: 2_000, questions: 1_000, tasks: 1_000, steps: 200 };

const listeners = new Map();
let events = [];
let first = 1;

export const state = {
  session: null,
  link: "connecting",
  target: { label: "", state: "starting", revisions: [], capabilities: {} },
  lists: {},
  calls: new Map(),
  questions: new Map(),
  tasks: new Map(),
  logs: [],
  authorization: [],
  reload: null,
  repeat: null,
  subscriptions: new Set(),
  updated: new Map(),
  explore: null,
  pinned: new Set(),
  selected: null,
  revision: null,
};

/** Be told when something of a channel changes; gives the function that ends it. */
export function on(channel, listener) {
  if (!listeners.has(channel)) listeners.set(channel, new Set());
  listeners.get(channel).add(listener);
  return () => listeners.get(channel).delete(listener);
}

export function tell(channel, value) {
  for (const listener of listeners.get(channel) ?? []) listener(value);
}

// -- events of the wire ------------------------------------------------------------------------------------------------

export const count = () => events.length;
export const oldest = () => first;
export const at_index = (index) => events[index];

/** The summary of an event by its number, if it is held. */
export function event(n) {
  return events[n - first];
}

/** The number of the next event of the wire. */
export const next = () => first + events.length;

function add_events(batch) {
  const added = [];
  for (const each of batch) {
    if (events.length === 0) first = each.n;
    const place = each.n - first;
    if (place < 0 || place < events.length) continue;
    while (events.length < place) events.push({ n: first + events.length, at: each.at, kind: "missing", dir: "in", label: "not kept", size: 0, own: true, problems: null });
    events.push(each);
    added.push(each);
  }
  if (events.length > BOUNDS.events + 10_000) {
    const spare = events.length - BOUNDS.events;
    events = events.slice(spare);
    first += spare;
    tell("trimmed", spare);
  }
  return added;
}

/** The events that belong to the call or request of one of them, in order. */
export function related(n, most = 2000) {
  const start = event(n);
  if (!start) return [];
  if (start.call) {
    const found = [];
    const call = state.calls.get(start.call);
    const from = Math.max(0, (call?.first ?? first) - first);
    const to = Math.min(events.length, (call?.last ?? next()) - first + 1);
    for (let index = from; index < to && found.length < most; index++) if (events[index].call === start.call) found.push(events[index]);
    if (found.includes(start)) return found;
  }
  const root = start.answers ?? n;
  const found = [];
  for (let index = Math.max(0, root - first); index < events.length && found.length < most; index++) {
    const each = events[index];
    if (each.n === root || each.answers === root) found.push(each);
    if (each.answers === root && (each.shape === "result" || each.shape === "error")) break;
    if (index - (root - first) > 20_000) break;
  }
  return found;
}

/** Whether an event is the answer to a request. */
export const is_answer = (each) => each?.shape === "result" || each?.shape === "error";

/** Keep a message at hand, or no longer: the wire can show those alone. */
export function pin(n) {
  state.pinned[state.pinned.has(n) ? "delete" : "add"](n);
  tell("pinned", n);
}

// -- the stream --------------------------------------------------------------------------------------------------------

function keep(map, id, value, most) {
  map.set(id, { ...map.get(id), ...value });
  for (const old of map.keys()) {
    if (map.size <= most) break;
    map.delete(old);
  }
  return map.get(id);
}

function keep_line(list, value, most) {
  list.push(value);
  if (list.length > most + 500) list.splice(0, list.length - most);
}

let lines = 0;

const CHANNELS = {
  wire: ({ events: batch }) => tell("wire", add_events(batch)),
  verdict: ({ n, problems }) => {
    const found = event(n);
    if (found) found.problems = problems;
    tell("verdict", n);
  },
  status: ({ exchange, status }) => {
    for (let index = events.length - 1, most = 5000; index >= 0 && most > 0; index--, most--) {
      const each = events[index].exchange;
      if (each?.n === exchange) each.status = status;
    }
    tell("verdict", null);
  },
  updated: (value) => {
    keep(state.updated, value.uri, value, BOUNDS.tasks);
    tell("updated", value);
  },
  target: (value) => {
    state.target = value;
    tell("target", value);
  },
  lists: (value) => {
    state.lists[value.kind] = value;
    tell("lists", value.kind);
  },
  call: (value) => tell("call", keep(state.calls, value.call, value, BOUNDS.calls)),
  question: (value) => tell("question", keep(state.questions, value.question, value, BOUNDS.questions)),
  task: (value) => tell("task", keep(state.tasks, value.task, value, BOUNDS.tasks)),
  log: (value) => {
    keep_line(state.logs, { ...value, line: lines++ }, BOUNDS.logs);
    tell("log");
  },
  stderr: (value) => {
    keep_line(state.logs, { at: value.at, level: "stderr", data: value.text, line: lines++ }, BOUNDS.logs);
    tell("log");
  },
  reload: (value) => {
    state.reload = value;
    tell("reload", value);
  },
  repeat: (value) => {
    state.repeat = value;
    tell("repeat", value);
  },
  authorization: (value) => {
    keep_line(state.authorization, value, BOUNDS.steps);
    tell("authorization", value);
  },
};

/** Take over what the process says of everything at once. */
function take(whole) {
  if (whole.target) CHANNELS.target(whole.target);
  for (const [kind, value] of Object.entries(whole.lists ?? {})) CHANNELS.lists({ kind, ...value });
  for (const value of whole.calls ?? []) CHANNELS.call(value);
  for (const value of whole.questions ?? []) CHANNELS.question(value);
  for (const value of whole.tasks ?? []) CHANNELS.task(value);
  state.logs = [];
  if (whole.stderr) for (const text of whole.stderr.split("\n").slice(-BOUNDS.logs)) if (text) CHANNELS.stderr({ text });
  for (const value of whole.logs ?? []) value.text === undefined ? CHANNELS.log(value) : CHANNELS.stderr(value);
  state.subscriptions = new Set(whole.subscriptions ?? []);
  if (whole.authorization) state.authorization = [...whole.authorization];
  if (whole.reload) CHANNELS.reload(whole.reload);
  if (whole.repeat) CHANNELS.repeat(whole.repeat);
  tell("log");
  tell("authorization");
}

function forget() {
  events = [];
  first = 1;
  for (const map of [state.calls, state.questions, state.tasks, state.updated, state.pinned, typed]) map.clear();
  Object.assign(state, { lists: {}, logs: [], authorization: [], repeat: null, selected: null });
  tell("forgotten");
}

let told;
/** Milliseconds until the process is asked again: after a stream that ended, and after the first failure. */
const AGAIN = 50;
const FIRST = 250;

function link_is(value, why) {
  if (state.link === value && told === why) return;
  state.link = value;
  told = why;
  tell("link", why);
}

/** Follow the process as long as the page is open. The state is asked for when the stream is open, so nothing is missed. */
export async function run(signal) {
  for (let wait = FIRST; !signal.aborted; wait = Math.min(wait * 2, 4000)) {
    let waiting = [];
    const begin = async () => {
      const whole = await api.get("/api/state");
      take(whole);
      const held = waiting;
      waiting = null;
      for (const [name, data] of held) CHANNELS[name]?.(data);
      link_is("open");
      wait = FIRST;
    };
    try {
      await api.follow(state.session ?? "", next(), (name, data) => {
        if (name === "hello") {
          if (state.session !== null && state.session !== data.session) forget(); // the stream begins with its first event
          state.session = data.session;
          state.explore = data.explore ?? null;
          begin().catch((error) => link_is("lost", error.message));
        } else if (name === "wire" || waiting === null) CHANNELS[name]?.(data);
        else waiting.push([name, data]);
      }, signal);
      // Another session was opened, or the command ended, which the next try tells.
      if (state.link === "open") {
        wait = AGAIN;
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
        continue;
      }
      link_is("lost", "The stream of events ended; trying again.");
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401 || error.status === 403) return link_is("refused", error.message);
      link_is("lost", error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

// -- what the page asks of the process ---------------------------------------------------------------------------------

const typed = new Map();

/** The parameters of a call as they were typed, as far as this page began it. */
export const params_text = (call) => typed.get(call.call) ?? JSON.stringify(call.params ?? {});

/** Begin a call; `params` is JSON text. */
export async function call(method, params, more = {}) {
  const rest = Object.entries(more).filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`);
  const { call: id } = await api.post("/api/call", `{"method":${JSON.stringify(method)},"params":${params}${rest.join("")}}`);
  typed.set(id, params);
  if (typed.size > BOUNDS.calls) typed.delete(typed.keys().next().value);
  return id;
}

/** A call and its end. */
export async function ask(method, params, more) {
  const id = await call(method, params, more);
  const over = (each) => each && ["done", "failed", "cancelled"].includes(each.state);
  if (over(state.calls.get(id))) return state.calls.get(id);
  return new Promise((resolve) => {
    const end = on("call", (each) => {
      if (each.call !== id || !over(each)) return;
      end();
      resolve(each);
    });
  });
}

/** Choose a message, for all views. */
export function select(n, { revision = state.revision, show = true } = {}) {
  state.selected = n;
  state.revision = revision;
  tell("selected", { n, show });
}
