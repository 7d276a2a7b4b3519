// One message: what it is, the rail of all revisions, and four views: the message, itself at another revision, its HTTP
// request, and where the time of its call went.

import * as api from "./api.js";
import { bytes, h, long, milliseconds, replace, say, short } from "./dom.js";
import { type_name } from "./explore.js";
import * as json from "./json.js";
import { Rail, comparison } from "./revisions.js";
import * as store from "./store.js";
import { role } from "./timeline.js";

const TABS = [["message", "Message"], ["revisions", "Revisions"], ["http", "HTTP"], ["time", "Time"]];

export class Detail {
  constructor() {
    this.tab = "message";
    this.loaded = null;
    this.head = h("div", { class: "detail-head" });
    this.rail = new Rail((revision) => {
      this.tab = "revisions";
      store.state.revision = revision;
      this.draw();
    });
    this.rail.loaded = () => this.tab === "revisions" && this.loaded?.n === store.state.selected && this.draw();
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the message" },
      TABS.map(([name, words]) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "detail-panel", on: { click: () => this.turn(name) } }, words)));
    this.tabs.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const shown = [...this.tabs.children].filter((tab) => !tab.hidden);
      const next = shown[(shown.findIndex((tab) => tab.id === `tab-${this.tab}`) + by + shown.length) % shown.length];
      this.turn(next.id.slice(4));
      next.focus();
      event.stopPropagation();
    });
    this.panel = h("div", { class: "panel", role: "tabpanel", id: "detail-panel", tabindex: "0" });
    this.nothing = h("p", { class: "empty" }, "Choose a message on the wire to see it as it went, what it is at every other revision, and where its time went.");
    this.full = h("div", { class: "detail-full", hidden: true }, this.head, this.rail.element, this.tabs, this.panel);
    this.element = h("div", { class: "detail" }, this.nothing, this.full);
    store.on("selected", () => this.load());
    store.on("forgotten", () => this.clear());
    store.on("verdict", (n) => n === store.state.selected && this.load());
    store.on("call", (call) => {
      if (this.loaded === null || !["done", "failed"].includes(call.state)) return;
      const event = store.event(store.state.selected);
      if (event?.call && (event.call === call.call || call.again_of === event.call) && this.tab !== "message") this.draw();
    });
  }

  turn(name) {
    this.tab = name;
    this.draw();
  }

  clear() {
    this.loaded = null;
    this.full.hidden = true;
    this.nothing.hidden = false;
  }

  async load() {
    const n = store.state.selected;
    if (n === null) return this.clear();
    const asked = Symbol("load");
    this.asked = asked;
    try {
      const found = await api.get(`/api/event/${n}`);
      if (this.asked !== asked) return;
      this.loaded = { problems: [], links: {}, text: "", ...found, n };
      this.rail.load(n, this.loaded.summary?.kind === "message");
    } catch (error) {
      if (this.asked !== asked) return;
      this.loaded = { n, summary: store.event(n) ?? { n }, text: "", problems: [], links: {}, error: error.message };
    }
    this.draw();
  }

  draw() {
    const { loaded } = this;
    if (loaded === null) return this.clear();
    this.nothing.hidden = true;
    this.full.hidden = false;
    const { exchange } = loaded;
    for (const tab of this.tabs.children) {
      const name = tab.id.slice(4);
      tab.hidden = name === "http" && !exchange;
      if (tab.hidden && this.tab === name) this.tab = "message";
    }
    for (const tab of this.tabs.children) {
      const chosen = tab.id === `tab-${this.tab}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.tab}`);
    replace(this.head, this.heading());
    this.rail.mark(this.tab === "revisions" ? store.state.revision : null);
    if (loaded.error) return replace(this.panel, h("p", { class: "error" }, loaded.error));
    const views = { message: () => this.message(), revisions: () => comparison(this.loaded, this.rail), http: () => this.http(), time: () => this.time() };
    replace(this.panel, views[this.tab]());
    this.panel.scrollTop = 0;
  }

  heading() {
    const { summary, links, n, type } = this.loaded;
    const event = { ...summary, ...store.event(n) };
    const kind = role(event);
    const go = (name, words) => links[name] && links[name] !== n
      ? h("button", { type: "button", class: "quiet", on: { click: () => store.select(links[name]) } }, `${words} #${links[name]}`) : null;
    const problems = event.problems;
    return [
      h("div", { class: "title" },
        h("h2", {}, h("span", { class: "muted" }, `#${n} `), event.method ? short(event.method, 80) : kind, event.method ? h("span", { class: `kind k-${kind}` }, ` ${kind}`) : null),
        h("span", { class: "grow" }),
        h("button", { type: "button", "aria-pressed": String(store.state.pinned.has(n)), title: "Pin this message: the list can show the pinned ones only", on: { click: ({ currentTarget }) => {
          store.pin(n);
          currentTarget.setAttribute("aria-pressed", String(store.state.pinned.has(n)));
        } } }, "Pin"),
        this.copying()),
      h("p", { class: "facts" },
        h("span", {}, event.dir === "out" ? "you → server" : "server → you"),
        type ? h("span", {}, type_name(type, event.revision)) : null,
        h("span", {}, bytes(event.size ?? 0)),
        problems === 0 ? h("span", { class: "ok" }, `✓ ok at ${event.revision ?? store.state.target.revision ?? "its revision"}`)
          : problems > 0 ? h("span", { class: "bad" }, `✕ ${problems} problem${problems === 1 ? "" : "s"} at ${event.revision ?? store.state.target.revision ?? "its revision"}`) : null,
        go("request", "request"), go("response", "response"), go("progress", "progress"), go("cancelled", "cancelled")),
    ];
  }

  copying() {
    const { n, summary, text } = this.loaded;
    const out = h("div", { class: "copied", hidden: true });
    const give = async (as) => {
      try {
        const body = summary?.call && as !== "json" ? { call: summary.call, as } : { event: n, as };
        const found = as === "json" ? text : as === "link" ? `${location.origin}/#n=${n}` : (await api.post("/api/copy", body)).text;
        await navigator.clipboard?.writeText(found).catch(() => {});
        replace(out, h("p", { class: "muted" }, "Copied:"), long(short(found, 4000) === found ? found : found.slice(0, 4000), { tabindex: "0", role: "group", "aria-label": "Copied text" }));
        say("Copied.");
      } catch (error) {
        replace(out, h("p", { class: "error" }, error.message));
      }
      out.hidden = false;
    };
    const items = [["command", "mcprev call"], ["curl", "curl"], ["pytest", "pytest"], ["json", "JSON"], ["link", "Link"]];
    return h("details", { class: "menu" }, h("summary", {}, "Copy as"), h("div", { class: "items" },
      items.map(([as, words]) => h("button", { type: "button", on: { click: () => give(as) } }, words)), out));
  }

  message() {
    const { text, problems, cut, summary } = this.loaded;
    if (!text) return h("p", { class: "empty" }, summary?.kind === "message" ? "Its text is no longer kept; a saved session has it." : sentence(summary));
    return [
      cut ? h("p", { class: "hint" }, "Longer than 10 MB: the rest is not shown.") : null,
      problems.length > 0 ? found_problems(problems) : null,
      json.view(text, { marks: problems.map(({ path, text: words }) => ({ path, kind: "problem", text: words })), label: "The message as it went over the wire" }),
    ];
  }

  http() {
    const { exchange, summary } = this.loaded;
    const table = (name, headers) => h("table", { class: "headers" }, h("caption", {}, name), h("tbody", {},
      (headers ?? []).map(([header, value]) => h("tr", {}, h("th", { scope: "row" }, header), h("td", {}, value)))));
    return [
      h("p", { class: "request-line" }, h("b", {}, exchange.verb ?? ""), " ", h("code", {}, exchange.url ?? exchange.path ?? ""), " ",
        exchange.status ? h("span", { class: exchange.status >= 400 ? "bad" : "ok" }, `${exchange.status} ${exchange.reason ?? ""}`) : h("span", { class: "muted" }, "no response yet")),
      summary?.event_id || summary?.event_name ? h("p", { class: "facts" }, summary.event_name ? `event: ${summary.event_name}` : null, summary.event_id ? ` id: ${summary.event_id}` : null) : null,
      table("Request headers", exchange.request_headers), table("Response headers", exchange.response_headers),
      h("p", { class: "hint" }, `Request #${exchange.n}: `, same_exchange(exchange.n, this.loaded.n)),
    ];
  }

  /** Where the milliseconds of the call went: the server's, yours, and every message at its time. */
  time() {
    const events = store.related(this.loaded.n);
    if (events.length < 2) return h("p", { class: "empty" }, "This message has no response, so there is no time to show.");
    const [begin, end] = [events[0].at, events[events.length - 1].at];
    const whole = Math.max(end - begin, 1e-6);
    const spans = [];
    for (const event of events) {
      if (!store.is_answer(event) || !event.answers) continue;
      const asked = store.event(event.answers);
      if (asked) spans.push({ from: asked.at, to: event.at, yours: event.dir === "out", event });
    }
    // Where nobody but you has something to do: a question inside, or between a result that asks and the next request.
    const inside = spans.filter((span) => span.yours);
    const busy = spans.filter((span) => !span.yours);
    const between = events.flatMap((event) => {
      if (event.shape !== "request" || event.dir !== "out" || event === events[0]) return [];
      const from = Math.max(...busy.filter((span) => span.to <= event.at).map((span) => span.to));
      return Number.isFinite(from) && !busy.some((span) => span.from < event.at && span.to > event.at) ? [{ from, to: event.at, yours: true, event }] : [];
    });
    spans.push(...between);
    const yours = union([...inside, ...between]);
    const bar = (from, to, name) => {
      const element = h("span", { class: `span ${name}` });
      element.style.left = `${((from - begin) / whole) * 100}%`;
      element.style.width = `max(2px, ${(Math.max(0, to - from) / whole) * 100}%)`;
      return element;
    };
    const within = (span) => spans.filter((each) => each.yours && each.from >= span.from && each.to <= span.to).map((each) => bar(each.from, each.to, "yours"));
    let before = begin;
    const rows = events.slice(0, 500).map((event) => {
      const span = spans.find((each) => each.event === event);
      const row = h("tr", {},
        h("td", { class: "num" }, milliseconds(event.at - begin)),
        h("td", { class: "num muted after" }, event.at > before ? `+${milliseconds(event.at - before)}` : ""),
        h("td", { class: "which" }, h("button", { type: "button", class: "quiet", on: { click: () => store.select(event.n) } }, `#${event.n}`), ` ${event.dir === "out" ? "→" : "←"} ${role(event)} `, h("span", { class: "muted" }, short((event.method ?? event.label ?? "").replace(/^notifications\//, ""), 40))),
        h("td", { class: "track" }, span ? [bar(span.from, span.to, span.yours ? "yours" : "servers"), span.yours ? null : within(span)] : bar(event.at, event.at, "point")));
      before = event.at;
      return row;
    });
    return [
      h("dl", { class: "totals" },
        h("div", {}, h("dt", {}, "whole call"), h("dd", {}, milliseconds(whole))),
        h("div", {}, h("dt", {}, "server and network"), h("dd", {}, milliseconds(Math.max(0, whole - yours)))),
        h("div", {}, h("dt", {}, "waiting for you"), h("dd", {}, milliseconds(yours))),
        h("div", {}, h("dt", {}, "messages"), h("dd", {}, String(events.length)))),
      h("table", { class: "waterfall" }, h("caption", { class: "unseen" }, "Messages of the call in time"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "num" }, "at"), h("th", { scope: "col", class: "num after" }, "after"), h("th", { scope: "col" }, "message"), h("th", { scope: "col" }, "time"))),
        h("tbody", {}, rows)),
    ];
  }
}

function sentence(event) {
  return {
    opened: "A connection was opened.", login: "A request of the login; its body is not kept.", lost: "The response was cut off, or never came.", closed: "The connection ended.", exchange: "An HTTP request without a message.", stderr: "A line of the server's stderr.",
  }[event?.kind] ?? "This event has no text.";
}

export function found_problems(problems) {
  return h("ul", { class: "problems" }, problems.slice(0, 200).map(({ path, text }) => h("li", {}, h("code", {}, short(path, 200)), " ", short(text, 600))),
    problems.length > 200 ? h("li", {}, `… and ${problems.length - 200} more`) : null);
}

function same_exchange(number, n) {
  const found = [];
  for (let each = Math.max(store.oldest(), n - 500); each < Math.min(store.next(), n + 500); each++) {
    if (store.event(each)?.exchange?.n === number) found.push(each);
  }
  return found.slice(0, 20).map((each) => [h("button", { type: "button", class: "quiet", on: { click: () => store.select(each) } }, `#${each}`), " "]);
}

function union(spans) {
  let [total, until] = [0, -Infinity];
  for (const { from, to } of [...spans].sort((a, b) => a.from - b.from)) {
    if (to <= until) continue;
    total += to - Math.max(from, until);
    until = to;
  }
  return total;
}

