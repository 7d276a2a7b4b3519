// The list of what there is to use, and which view is open.

import * as api from "./api.js";
import { h, replace, say, short, table } from "./dom.js";
import { logs_view } from "./logs.js";
import { questions_view } from "./questions.js";
import { server_view } from "./server.js";
import * as store from "./store.js";
import { tasks_view } from "./tasks.js";
import { item_of, name_of, panel, reads } from "./use.js";

const LISTS = [["tools", "Tools", "tools"], ["resources", "Resources", "resources"], ["templates", "Templates", "resources"], ["prompts", "Prompts", "prompts"]];
const VIEWS = table({ questions: ["Questions", questions_view], tasks: ["Tasks", tasks_view], logs: ["Logs", logs_view], server: ["Server", server_view] });
const FIRST = 300;
const LONGEST = 1000;

/** What the button of a name is found by; the name itself would be copied each time that the list is drawn, however long it is. */
const key_of = (kind, name) => `${kind}/${name.length > LONGEST ? `${name.slice(0, LONGEST)}…${name.length}` : name}`;

export class Nav {
  constructor() {
    this.open_at = null;
    this.filter = h("input", { type: "search", id: "find", placeholder: "Find a tool…", "aria-label": "Find a tool, resource or prompt", autocomplete: "off", spellcheck: "false", on: { input: () => this.draw() } });
    this.lists = h("div", { class: "nav-lists" });
    this.views = h("div", { class: "nav-views" });
    this.element = h("nav", { class: "nav", "aria-label": "What the server offers" }, h("div", { class: "bar" }, this.filter), this.lists, this.views);
    this.title = h("h2", { class: "view-title" });
    this.back = h("button", { type: "button", class: "back", on: { click: () => this.close() } }, "‹ All");
    this.place = h("div", { class: "view-place", tabindex: "-1" });
    this.main = h("section", { class: "use", id: "use", "aria-label": "Use" }, h("div", { class: "view-bar" }, this.back), this.place);
    this.more = new Set();
    this.unfolded = new Set(["tools"]);
    this.asked = new Set();
    this.known = new Map();
    this.news = new Map();
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    store.on("lists", (kind) => {
      this.compare(kind);
      this.draw();
      if (this.open_at?.kind === kind) this.open(kind, this.open_at.name, { quiet: true });
      else if (this.open_at === null) this.wanted();
    });
    store.on("target", () => this.load());
    store.on("link", () => this.load());
    store.on("forgotten", () => [this.asked, this.known, this.news].forEach((each) => each.clear()));
    for (const channel of ["target", "forgotten", "link"]) store.on(channel, () => this.soon());
    for (const channel of ["question", "task", "log"]) store.on(channel, () => this.soon({ lists: false }));
    reads((uri) => this.open("resources", uri));
    this.draw();
    this.begin();
  }

  /** Draw with the next frame; a log line is no reason to draw ten thousand tools again. */
  soon({ lists = true } = {}) {
    this.stale ||= lists;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw({ lists: this.stale });
    });
  }

  /** Ask for the lists that are unfolded and were not asked for: mcprev sends nothing that nobody wants to see. */
  load() {
    const { target, link } = store.state;
    if (target.state !== "connected" || link !== "open" || target.kind === "recording") return;
    for (const [kind, , capability] of LISTS) {
      if (!this.unfolded.has(kind) || this.asked.has(kind) || store.state.lists[kind] || !target.capabilities?.[capability]) continue;
      this.asked.add(kind);
      api.post("/api/list", { kind }).catch((error) => say(error.message));
    }
  }

  /** Mark what is new or changed since a list was last complete, such as after the server started again. */
  compare(kind) {
    const list = store.state.lists[kind];
    if (list.state !== "ready") return;
    const before = this.known.get(kind);
    const now = new Map(list.items.map((item) => [name_of(kind, item), JSON.stringify(item)]));
    this.known.set(kind, now);
    if (!before) return;
    let count = 0;
    for (const [name, text] of now) {
      if (before.get(name) === text) continue;
      this.news.set(`${kind}/${name}`, before.has(name) ? "changed" : "new");
      count++;
    }
    const gone = [...before.keys()].filter((name) => !now.has(name)).length;
    if (count + gone > 0) say(`${kind}: ${count} new or changed, ${gone} gone.`);
  }

  unfold(kind, open = true) {
    this.unfolded[open ? "add" : "delete"](kind);
    this.load();
    this.draw();
  }

  draw({ lists = true } = {}) {
    if (lists) this.stale = false;
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const wanted = this.filter.value.trim().toLowerCase();
    if (lists) {
      const sections = LISTS.map(([kind, words, capability]) => this.section(kind, words, capability, wanted)).filter(Boolean);
      replace(this.lists, wanted && sections.length === 0 ? h("p", { class: "empty" }, `Nothing in the lists is named “${short(wanted, 40)}”.`) : sections);
    }
    const open = [...store.state.questions.values()].filter((each) => each.state === "open").length;
    const running = [...store.state.tasks.values()].filter((each) => ["working", "input_required"].includes(each.status)).length;
    const serious = store.state.logs.filter((each) => ["error", "critical", "alert", "emergency"].includes(each.level)).length;
    const counts = {
      questions: open > 0 ? h("span", { class: "count asks" }, `${open} open`) : null,
      tasks: store.state.tasks.size > 0 ? h("span", { class: "count" }, running > 0 ? `${running} running` : String(store.state.tasks.size)) : null,
      logs: store.state.logs.length > 0 ? h("span", { class: serious > 0 ? "count fails" : "count" }, serious > 0 ? `${serious} error${serious === 1 ? "" : "s"}` : String(store.state.logs.length)) : null,
      server: store.state.target.state === "failed" ? h("span", { class: "count fails" }, "failed") : null,
    };
    replace(this.views, Object.entries(VIEWS).map(([kind, [words]]) => this.button(kind, "", [h("span", { class: "name" }, words), counts[kind]])));
    if (focused && !this.element.contains(document.activeElement)) this.element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  section(kind, words, capability, wanted) {
    const list = store.state.lists[kind];
    const items = list?.items ?? [];
    const found = wanted ? items.filter((item) => `${name_of(kind, item)} ${item.title ?? ""} ${item.description ?? ""}`.toLowerCase().includes(wanted)) : items;
    const shown = this.more.has(kind) ? found : found.slice(0, FIRST);
    const state = list?.state;
    if (state === "unsupported" || (wanted && found.length === 0) || (!list && !store.state.target.capabilities?.[capability])) return null;
    const open = wanted !== "" || this.unfolded.has(kind);
    const load = h("button", { type: "button", class: "refresh", title: `Fetch the ${words.toLowerCase()} again`, "aria-label": `Fetch the ${words.toLowerCase()} again`, "data-key": `load ${kind}`, on: { click: () => api.post("/api/list", { kind }).catch((error) => say(error.message)) } }, "↻");
    return h("section", { "aria-label": words },
      h("div", { class: "nav-head" }, h("h2", {}, h("button", { type: "button", "aria-expanded": String(open), "data-key": `fold ${kind}`, on: { click: () => this.unfold(kind, !open) } }, words, " ", h("span", { class: "count" }, state === "loading" ? "…" : list ? String(items.length) : ""))), open && list ? load : null),
      open && state === "ready" && items.length === 0 ? h("p", { class: "hint" }, "None.") : null,
      state === "failed" ? h("p", { class: "error" }, short(String(list.error?.message ?? list.error ?? "failed"), 300)) : null,
      open && shown.length > 0 ? h("ul", {}, shown.map((item) => h("li", {}, this.button(kind, name_of(kind, item), h("span", { class: "name" }, short(String(kind === "resources" ? item.title ?? item.name ?? item.uri : name_of(kind, item)), 80)))))) : null,
      open && found.length > shown.length ? h("button", { type: "button", class: "more", on: { click: () => {
        this.more.add(kind);
        this.draw();
      } } }, `Show all ${found.length}`) : null);
  }

  button(kind, name, children) {
    const here = this.open_at?.kind === kind && this.open_at.name === name;
    const news = this.news.size > 0 ? this.news.get(`${kind}/${name}`) : undefined;
    return h("button", { type: "button", class: "item", "data-key": key_of(kind, name), "aria-current": here ? "page" : null, title: name.length > 18 ? short(name, 300) : null, on: { click: () => this.open(kind, name, { focus: true }) } }, children, news ? h("span", { class: "news" }, news) : null);
  }

  pressed(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const all = [...this.element.querySelectorAll(".item")];
    const place = all.indexOf(document.activeElement);
    (all[place + by] ?? (by > 0 ? all[0] : this.filter)).focus();
    event.preventDefault();
  }

  /** Open what the address names, as soon as it is there. */
  wanted() {
    const [kind, ...rest] = (new URLSearchParams(location.hash.slice(1)).get("at") ?? "").split("/");
    const name = rest.join("/");
    if (LISTS.some(([each]) => each === kind)) this.unfold(kind);
    if (kind in VIEWS || (LISTS.some(([each]) => each === kind) && item_of(kind, name))) this.open(kind, name, { quiet: true });
    else if (matchMedia("(min-width: 1100px)").matches) {
      const first = store.state.lists.tools?.items?.[0];
      if (first) this.open("tools", name_of("tools", first), { quiet: true });
    }
  }

  open(kind, name = "", { focus = false, quiet = false } = {}) {
    const view = kind in VIEWS ? (this.open_at?.kind === kind && this.view ? this.view : VIEWS[kind][1]()) : panel(kind, name);
    if (!view) {
      if (this.open_at?.kind === kind) replace(this.place, h("p", { class: "empty" }, `The server no longer has “${short(name, 80)}”.`));
      return;
    }
    if (this.view && this.view !== view) this.view.ends.forEach((end) => end());
    this.view = view;
    this.open_at = { kind, name };
    if (focus) this.news.delete(`${kind}/${name}`);
    document.body.classList.add("in-view");
    if (this.place.firstChild !== view.element || this.place.childNodes.length !== 1) {
      const inside = this.place.contains(document.activeElement);
      replace(this.place, view.element);
      if (!quiet) this.place.scrollTop = 0;
      if (inside) view.panel?.form?.focus();
    }
    this.draw();
    this.remember();
    if (!quiet) tell_open(view.title);
    if (focus && !matchMedia("(min-width: 1100px)").matches) this.back.focus();
    else if (focus) (view.panel?.form ?? { focus: () => this.place.focus() }).focus();
  }

  close() {
    document.body.classList.remove("in-view");
    this.element.querySelector("[aria-current]")?.focus();
  }

  remember() {
    const fragment = new URLSearchParams(location.hash.slice(1));
    const { kind, name } = this.open_at;
    fragment.set("at", name && name.length <= LONGEST ? `${kind}/${name}` : kind); // a longer name is no part of an address
    history.replaceState(null, "", `#${fragment}`);
  }

  /** What stands in the place of a view before one is open. */
  begin() {
    replace(this.place, h("div", { class: "view" }, h("p", { class: "empty" }, "Choose a tool, a resource or a prompt.")));
  }

  /** Put the focus on the list of a kind. */
  go(kind) {
    if (kind in VIEWS) return this.open(kind, "", { focus: true });
    document.body.classList.remove("in-view");
    this.unfold(kind);
    (this.element.querySelector(`[data-key^="${kind}/"]`) ?? this.element.querySelector(`[data-key="fold ${kind}"]`))?.focus();
  }
}

function tell_open(title) {
  say(`${short(title, 80)} is open.`);
}

