// Use the server: a panel for each tool, resource, template and prompt, with its form, its call, and earlier calls.

import * as api from "./api.js";
import { bytes, h, link, milliseconds, replace, say, short, table } from "./dom.js";
import { Form } from "./form.js";
import * as json from "./json.js";
import { markdown } from "./markdown.js";
import { card } from "./questions.js";
import { Repeat } from "./repeat.js";
import { failure, result } from "./result.js";
import * as store from "./store.js";

const OVER = ["done", "failed", "cancelled"];
const over = (call) => OVER.includes(call.state);
const STATES = table({ open: "waiting for the server", asking: "waiting for you", done: "done", failed: "failed", cancelled: "cancelled" });
const SHAPES = table({ open: "◌", asking: "?", done: "✓", failed: "✕", cancelled: "○" });
const TYPED = "mcprev-typed:";

/** How each kind of item is used: its method, name, form and parameters. */
const KINDS = {
  tools: {
    method: "tools/call", button: "Call", name: (item) => item.name, schema: (item) => item.inputSchema ?? {},
    params: (item, args) => `{"name":${JSON.stringify(item.name)},"arguments":${args}}`,
    of: (item, call) => call.params?.name === item.name,
    arguments_of: (text) => json.at(json.parse(text), "arguments"),
  },
  resources: {
    method: "resources/read", button: "Read", name: (item) => item.uri, schema: () => null,
    params: (item) => `{"uri":${JSON.stringify(item.uri)}}`, of: (item, call) => call.params?.uri === item.uri,
  },
  templates: {
    method: "resources/read", button: "Read", name: (item) => item.uriTemplate, label: "Variables",
    schema: (item) => strings(variables(item.uriTemplate).map((name) => ({ name, required: !variables(item.uriTemplate, "?&").includes(name) }))),
    params: (item, args) => `{"uri":${JSON.stringify(expanded(item.uriTemplate, JSON.parse(args)))}}`,
    of: (item, call) => typeof call.params?.uri === "string" && matches(item.uriTemplate, call.params.uri),
    reference: (item) => ({ type: "ref/resource", uri: item.uriTemplate }),
  },
  prompts: {
    method: "prompts/get", button: "Get", name: (item) => item.name, schema: (item) => strings(item.arguments ?? []),
    params: (item, args) => `{"name":${JSON.stringify(item.name)},"arguments":${args}}`, of: (item, call) => call.params?.name === item.name,
    reference: (item) => ({ type: "ref/prompt", name: item.name }),
    arguments_of: (text) => json.at(json.parse(text), "arguments"),
  },
};

function strings(args) {
  const found = (Array.isArray(args) ? args : []).slice(0, 100);
  return { type: "object", properties: Object.fromEntries(found.map(({ name, title, description }) => [name, { type: "string", title, description }])), required: found.filter((each) => each.required).map((each) => each.name), additionalProperties: false };
}

const EXPRESSION = /\{([+#./;?&]?)([^{}]*)\}/g;

/** The names of the variables of a URI template, or of those in its expressions with one of some operators. */
export function variables(template, operators = "") {
  const expressions = [...String(template).matchAll(EXPRESSION)].filter(([, operator]) => operators === "" || (operator !== "" && operators.includes(operator)));
  const found = expressions.flatMap(([, , names]) => names.split(",").map((name) => name.trim().replace(/(?:\*|:\d+)$/, "")));
  return [...new Set(found.filter(Boolean))].slice(0, 100);
}

/** A URI template (RFC 6570) with strings as its variables. */
export function expanded(template, values) {
  const style = { "": ["", ",", false], "+": ["", ",", false], "#": ["#", ",", false], ".": [".", ".", false], "/": ["/", "/", false], ";": [";", ";", true], "?": ["?", "&", true], "&": ["&", "&", true] };
  return String(template).replace(EXPRESSION, (_, operator, names) => {
    const [first, between, named] = style[operator];
    const encode = (text) => (operator === "+" || operator === "#" ? encodeURI(text) : encodeURIComponent(text));
    const parts = names.split(",").flatMap((raw) => {
      const [, name, length] = /^([^:*]*)(?::(\d+))?\*?$/.exec(raw.trim()) ?? [null, raw, undefined];
      if (!Object.hasOwn(values, name)) return [];
      const value = values[name];
      const whole = length ? [...value].slice(0, Number(length)).join("") : value;
      const text = operator === "/" && raw.trim().endsWith("*") ? whole.split("/").map(encode).join("/") : encode(whole);
      return [named ? (text === "" && operator === ";" ? name : `${name}=${text}`) : text];
    });
    return parts.length === 0 ? "" : first + parts.join(between);
  });
}

/** Whether an address begins and ends as a template does. */
function matches(template, uri) {
  const fixed = String(template).split(/\{[^{}]*\}/);
  return uri.startsWith(fixed[0]) && uri.endsWith(fixed[fixed.length - 1]);
}

// -- one panel ---------------------------------------------------------------------------------------------------------

class Panel {
  constructor(kind, item, restored) {
    Object.assign(this, { kind, item, how: KINDS[kind] });
    this.current = null;
    const schema = this.how.schema(item);
    this.form = schema && new Form(schema, { changed: () => this.changed(), label: this.how.label ?? "Arguments", oneline: Boolean(this.how.reference) });
    const typed = restored ?? sessionStorage.getItem(TYPED + this.key());
    if (this.form && typed) this.form.set(typed);
    this.go = h("button", { type: "button", class: "main go", title: "Ctrl+Enter", on: { click: () => this.start() } }, this.how.button);
    this.anyway = h("button", { type: "button", hidden: true, on: { click: () => this.start({ checked: true }) } }, "Send it anyway");
    this.at = h("select", { "aria-label": "At which revision" });
    this.task = h("input", { type: "checkbox" });
    this.address = kind === "templates" ? h("p", { class: "facts" }) : null;
    this.live = h("div", { class: "live" });
    this.earlier = h("div", { class: "earlier" });
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.news = h("p", { class: "warning", hidden: true });
    this.repeat = kind === "tools" ? new Repeat(item.name, () => this.form.get()) : null;
    const support = item.execution?.taskSupport;
    if (support === "required") this.task.checked = true;
    const tasks = kind === "tools" && (support === "optional" || support === "required");
    this.element = h("div", { class: "view" }, this.heading(), this.form?.element, this.address,
      h("div", { class: "buttons calling" }, this.go, this.anyway, h("label", { class: "inline" }, "at ", this.at), tasks ? h("label", { class: "inline" }, this.task, " as a task") : null, kind === "resources" ? this.subscribing() : null),
      this.problem, this.news, this.live, this.earlier, this.repeat?.element);
    this.completing();
    this.revisions();
    this.changed();
    this.history();
  }

  key() {
    return `${this.kind}/${this.how.name(this.item)}`;
  }

  heading() {
    const { item } = this;
    const notes = item.annotations ?? {};
    const chips = [
      ["readOnlyHint", "read only", null], ["destructiveHint", "destructive", "not destructive"], ["idempotentHint", "idempotent", null], ["openWorldHint", "open world", "closed world"],
    ].flatMap(([name, yes, no]) => (notes[name] === true ? [yes] : notes[name] === false && no ? [no] : []));
    const title = item.title ?? notes.title ?? (["resources", "templates"].includes(this.kind) && item.name !== this.how.name(item) ? item.name : undefined);
    return h("div", { class: "view-head" },
      h("h2", {}, title ? short(String(title), 200) : short(String(this.how.name(item)), 200)),
      h("p", { class: "facts" }, title ? h("code", { class: "address" }, short(String(this.how.name(item)), 300)) : null, item.mimeType ? h("span", {}, short(String(item.mimeType), 80)) : null,
        chips.map((words) => h("span", { class: "chip" }, words)), item.websiteUrl ? link(item.websiteUrl, "website") : null),
      typeof item.description === "string" && item.description ? h("div", { class: "description" }, markdown(item.description)) : null);
  }

  subscribing() {
    const box = h("input", { type: "checkbox", on: { change: () => api.post("/api/subscribe", { uri: this.item.uri, on: box.checked }).then(
      () => {
        store.state.subscriptions[box.checked ? "add" : "delete"](this.item.uri);
        say(box.checked ? "Subscribed." : "No longer subscribed.");
      },
      (error) => {
        box.checked = !box.checked;
        this.fail(error.message);
      }) } });
    box.checked = store.state.subscriptions.has(this.item.uri);
    return h("label", { class: "inline" }, box, " subscribe to updates");
  }

  revisions() {
    const { target } = store.state;
    const chosen = this.at.value;
    replace(this.at, h("option", { value: "" }, target.revision ? `${target.revision} (in use)` : "the one in use"), (target.revisions ?? []).filter((each) => each !== target.revision).map((each) => h("option", { value: each }, each)), h("option", { value: "*" }, "every revision"));
    this.at.value = [...this.at.options].some((each) => each.value === chosen) ? chosen : "";
    this.go.disabled = target.kind === "recording";
  }

  /** Ask the server what an argument may be while it is typed. */
  completing() {
    if (!this.how.reference) return;
    for (const name of Object.keys(this.how.schema(this.item).properties)) {
      const field = this.form.field(name);
      let waiting;
      field?.input()?.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => this.complete(name, field), 200);
      });
      field?.input()?.addEventListener("focus", () => this.complete(name, field), { once: true });
    }
  }

  async complete(name, field) {
    if (!store.state.target.capabilities?.completions || store.state.target.state !== "connected") return;
    const values = JSON.parse(this.form.get() ?? "{}");
    const { [name]: value, ...others } = values;
    const params = { ref: this.how.reference(this.item), argument: { name, value: value ?? "" }, ...(Object.keys(others).length > 0 ? { context: { arguments: others } } : {}) };
    try {
      const call = await store.ask("completion/complete", JSON.stringify(params));
      const found = JSON.parse(call.result ?? "{}").completion?.values;
      if (Array.isArray(found)) field.complete(found.filter((each) => typeof each === "string"));
    } catch { /* a server that cannot complete is used without */ }
  }

  changed() {
    this.anyway.hidden = true;
    const text = this.form?.get();
    if (text && text.length < 100_000 && !this.form.element.querySelector("input[type=password]")) {
      try {
        sessionStorage.setItem(TYPED + this.key(), text);
      } catch { /* it is full: what is typed is kept as long as the page is open */ }
    }
    if (this.address) {
      const values = text ? JSON.parse(text) : {};
      replace(this.address, h("span", {}, "reads "), h("code", { class: "address" }, short(expanded(this.item.uriTemplate, values), 500)));
    }
  }

  /** A resource that is followed has changed. */
  updated({ uri }) {
    if (this.kind !== "resources" || uri !== this.item.uri) return;
    replace(this.news, "It has changed on the server: read it again.");
    this.news.hidden = false;
    say(`${short(uri, 80)} has changed.`);
  }

  fail(text) {
    replace(this.problem, text);
    this.problem.hidden = false;
  }

  async start({ checked = false } = {}) {
    if (this.go.disabled) return;
    this.problem.hidden = true;
    this.news.hidden = true;
    const args = this.form ? this.form.get() : "{}";
    if (args === null) return this.form.show([{ path: "$", text: "This is not JSON." }]);
    if (this.kind === "tools" && !checked) {
      const { problems } = await api.post("/api/check", `{"tool":${JSON.stringify(this.item.name)},"arguments":${args}}`).catch(() => ({ problems: [] }));
      if (problems?.length > 0) {
        this.form.show(problems);
        this.anyway.hidden = false;
        say(`${problems.length} problem${problems.length === 1 ? "" : "s"} in the arguments.`);
        this.form.element.querySelector("[aria-invalid=true]")?.focus();
        return;
      }
    }
    this.anyway.hidden = true;
    const params = this.how.params(this.item, args);
    const chosen = this.at.value;
    const more = { task: this.task.checked || undefined };
    try {
      if (chosen === "*") {
        const first = await store.call(this.how.method, params, more);
        this.current = { root: first };
        for (const revision of store.state.target.revisions ?? []) {
          if (revision !== store.state.target.revision) await store.call(this.how.method, params, { ...more, revision, again_of: first });
        }
      } else this.current = { root: await store.call(this.how.method, params, { ...more, revision: chosen || undefined }) };
      this.draw();
      const call = store.state.calls.get(this.current.root);
      if (call && over(call)) this.told(call); // it was over before this page knew its name
    } catch (error) {
      this.fail(error.message);
    }
  }

  /** Take arguments of an earlier call over. */
  again(call) {
    const text = store.params_text(call);
    const args = this.how.arguments_of?.(text);
    if (args && this.form) this.form.set(json.compact(args));
    this.current = { root: call.call };
    this.changed();
    this.draw();
  }

  /** Whether a call is one of this item, its own and not one at another revision. */
  mine(call) {
    return call.method === this.how.method && this.how.of(this.item, call);
  }

  told(call) {
    if (!this.mine(call)) return;
    if (this.current === null || call.call === this.current.root || call.again_of === this.current.root) {
      if (this.current === null && !over(call)) this.current = { root: call.again_of ?? call.call };
      this.draw();
      if (over(call) && call.call === this.current?.root && this.shown !== call.call) {
        this.shown = call.call;
        say(`${short(String(this.how.name(this.item)), 80)}: ${STATES[call.state]}${call.ended ? ` after ${milliseconds(call.ended - call.started)}` : ""}.`);
        if ((call.response ?? call.last) && this.element.isConnected) store.select(call.response ?? call.last, { show: false });
      }
    }
    this.history();
  }

  draw() {
    const call = this.current && store.state.calls.get(this.current.root);
    if (!call) return replace(this.live);
    const stamp = JSON.stringify([call.state, call.progress, call.revision, call.last]);
    const others = [...store.state.calls.values()].filter((each) => each.again_of === call.call);
    // A question of no call may be one of this one: a server need not say what it asks for.
    const questions = [...store.state.questions.values()].filter((each) => each.state === "open" && (each.call === call.call || (!each.call && !over(call)) || others.some((other) => other.call === each.call)));
    const all = stamp + questions.map((each) => each.question).join() + others.map((each) => each.call + each.state).join();
    if (all === this.stamp && this.live.childElementCount > 0) return;
    this.stamp = all;
    replace(this.live,
      h("div", { class: `state s-${call.state}` }, h("span", { "aria-hidden": "true" }, SHAPES[call.state]), ` ${STATES[call.state]}`,
        call.ended !== undefined && call.ended !== null ? h("b", {}, ` ${milliseconds(call.ended - call.started)}`) : null, call.revision && over(call) ? h("span", { class: "muted" }, ` at ${call.revision}`) : null,
        h("span", { class: "acts" },
          call.last || call.first ? h("button", { type: "button", class: "quiet", on: { click: () => store.select(call.response ?? call.last ?? call.first) } }, "on the wire") : null,
          over(call) ? null : h("button", { type: "button", on: { click: () => api.post(`/api/call/${encodeURIComponent(call.call)}/cancel`).catch((error) => this.fail(error.message)) } }, "Cancel"))),
      call.progress && !over(call) ? progress(call.progress) : null,
      questions.map(card),
      call.error ? failure(call.error) : null,
      call.state === "done" ? this.result(call) : null,
      call.task ? h("p", { class: "hint" }, "It runs as task ", h("code", {}, short(call.task, 60)), ": see Tasks.") : null,
      others.length > 0 ? beside(call, others) : null);
  }

  /** The result of a call; one that was too long for a list is asked for. */
  result(call) {
    const shown = (text) => result(this.how.method, text, { schema: this.item.outputSchema, open_resource: (uri) => read_anywhere(uri) });
    if (call.result_left_out === undefined) return shown(call.result);
    const place = h("div", {}, h("p", { class: "hint" }, "Loading the result…"));
    api.get(`/api/call/${encodeURIComponent(call.call)}`).then(
      (whole) => replace(place, whole.result === undefined ? h("p", { class: "hint" }, `The result has ${bytes(call.result_left_out)}: too much to show, but a saved session has it.`) : shown(whole.result)),
      (error) => replace(place, h("p", { class: "error" }, error.message)));
    return place;
  }

  history() {
    const calls = [...store.state.calls.values()].filter((call) => this.mine(call) && !call.again_of).slice(-20).reverse();
    if (calls.length < 2 && !(calls.length === 1 && this.current === null)) return replace(this.earlier);
    replace(this.earlier, h("h3", {}, "Calls so far"), h("ul", {}, calls.map((call) => h("li", {}, h("button", { type: "button", class: "quiet again", on: { click: () => this.again(call) } },
      h("span", { class: `s-${call.state}` }, `${SHAPES[call.state]} `), h("code", {}, short(json.compact(this.how.arguments_of?.(store.params_text(call)) ?? { kind: "null", raw: store.params_text(call) }), 80)), h("span", { class: "muted" }, ` ${call.ended ? milliseconds(call.ended - call.started) : STATES[call.state]}`))))));
  }
}

function progress({ progress: value, total, message }) {
  const bar = h("progress", { "aria-label": "Progress" });
  if (typeof total === "number" && total > 0) {
    bar.max = total;
    bar.value = Math.max(0, Math.min(total, Number(value) || 0));
  }
  return h("div", { class: "progress" }, bar, h("span", { class: "muted" }, `${value ?? ""}${total ? ` of ${total}` : ""}${message ? ` · ${short(String(message), 200)}` : ""}`));
}

/** The same call at other revisions beside the first: what the server was observed to answer. */
function beside(call, others) {
  const place = h("div", {});
  const text_of = (each) => (each.state === "done" ? each.result ?? "" : JSON.stringify(each.error ?? {}));
  const show = (other) => {
    const [mine, theirs] = json.differences(text_of(call), text_of(other));
    replace(place, h("div", { class: "pair" },
      h("section", { "aria-label": `Result at ${call.revision}` }, h("h4", {}, call.revision ?? "in use"), json.view(text_of(call), { marks: mine, label: `Result at ${call.revision}` })),
      h("section", { "aria-label": `Result at ${other.revision}` }, h("h4", {}, other.revision, " ", h("span", { class: "label seen" }, "observed")), json.view(text_of(other), { marks: theirs, label: `Result at ${other.revision}` }))));
  };
  return h("section", { class: "at-others", "aria-label": "At other revisions" }, h("h3", {}, "At other revisions ", h("span", { class: "label seen" }, "observed")),
    h("table", { class: "outcomes" }, h("tbody", {}, others.map((other) => {
      const [marks] = over(other) && over(call) ? json.differences(text_of(call), text_of(other)) : [[]];
      return h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "quiet", on: { click: () => show(other) } }, other.revision ?? "")),
        h("td", { class: `s-${other.state}` }, `${SHAPES[other.state]} ${STATES[other.state]}`),
        h("td", { class: "muted" }, !over(other) ? "" : marks.length === 0 ? "the same" : `${marks.length} difference${marks.length === 1 ? "" : "s"}`),
        h("td", { class: "num muted" }, other.ended ? milliseconds(other.ended - other.started) : ""));
    }))), place);
}

// -- the panels --------------------------------------------------------------------------------------------------------

const panels = new Map();
let read_anywhere = () => {};

/** How a link to a resource of a result is read. */
export function reads(open) {
  read_anywhere = open;
}

/** The item of a list by its name. */
export function item_of(kind, name) {
  return store.state.lists[kind]?.items?.find((each) => KINDS[kind].name(each) === name);
}

/** The panel of an item: kept, with what is typed, also when the server starts again with another schema. */
export function panel(kind, name) {
  const item = item_of(kind, name) ?? (kind === "resources" ? { uri: name, name } : undefined);
  if (!item) return null;
  const key = `${kind}/${name}`;
  const text = JSON.stringify(item);
  let found = panels.get(key);
  if (!found || found.text !== text) {
    const made = new Panel(kind, item, found?.form?.get() ?? undefined);
    if (found) {
      made.current = found.current;
      made.draw();
      found.end();
    }
    made.text = text;
    const ends = [store.on("call", (call) => made.told(call)), store.on("question", () => made.draw()), store.on("target", () => made.revisions()), store.on("updated", (value) => made.updated(value)), store.on("repeat", () => made.repeat?.told())];
    made.end = () => ends.forEach((end) => end());
    panels.set(key, made);
    if (panels.size > 60) {
      const [oldest, old] = panels.entries().next().value;
      old.end();
      panels.delete(oldest);
    }
    found = made;
  }
  return { title: String(item.title ?? KINDS[kind].name(item)), element: found.element, ends: [], panel: found };
}

store.on("forgotten", () => {
  for (const each of panels.values()) {
    each.current = null;
    each.draw();
    each.history();
  }
});

export const name_of = (kind, item) => KINDS[kind].name(item);
