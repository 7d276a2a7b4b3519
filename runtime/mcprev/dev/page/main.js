// The page of `mcprev dev`: puts the parts together and starts following the process.

import * as api from "./api.js";
import { Detail } from "./detail.js";
import { download, give_back, h, replace, say, short, table } from "./dom.js";
import { Keys } from "./keys.js";
import { Nav } from "./nav.js";
import { target_error } from "./server.js";
import * as store from "./store.js";
import { Timeline } from "./timeline.js";

const STATES = table({ starting: ["◌", "starting"], connected: ["●", "connected"], failed: ["✕", "failed"], stopped: ["○", "stopped"], restarting: ["◌", "restarting"] });
const PARTS = [["use", "Use"], ["wire", "Wire"], ["revisions", "Revisions"]];

class Page {
  constructor() {
    this.nav = new Nav();
    this.timeline = new Timeline();
    this.detail = new Detail();
    this.name = h("span", { class: "target-name" });
    this.state = h("span", { class: "target-state", role: "status" });
    this.revision = h("select", { class: "revision", "aria-label": "Revision in use", on: { change: () => this.choose() } });
    this.banner = h("div", { class: "banner", hidden: true });
    this.parts = h("div", { class: "parts", role: "tablist", "aria-label": "Parts of the page" }, PARTS.map(([part, words]) =>
      h("button", { type: "button", role: "tab", id: `part-${part}`, "aria-controls": part === "use" ? "use" : part === "wire" ? "wire" : "message", on: { click: () => this.turn(part) } }, words)));
    this.parts.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const names = PARTS.map(([part]) => part);
      const next = names[(names.indexOf(document.body.dataset.part) + by + names.length) % names.length];
      this.turn(next);
      document.getElementById(`part-${next}`).focus();
    });
    this.open_file = h("input", { type: "file", accept: ".jsonl", hidden: true, "aria-label": "A saved session" });
    this.open_file.addEventListener("change", () => this.open());
    const top = h("div", { class: "top" },
      h("h1", {}, h("span", { class: "mark", "aria-hidden": "true" }, "◆"), " mcprev"), this.name, this.state, h("span", { class: "grow" }),
      h("label", { class: "inline rev" }, h("span", { class: "wide" }, "revision "), this.revision),
      this.menu());
    const keys = this.keys();
    document.body.append(
      h("a", { class: "skip" }, "Skip to the messages on the wire"), h("header", {}, top, this.parts, this.banner),
      h("main", { class: "columns" }, this.nav.element, this.nav.main,
        h("section", { class: "wire", "aria-label": "Wire" }, h("div", { id: "wire" }, this.timeline.element), this.divider(), h("div", { id: "message" }, this.detail.element))),
      h("div", { id: "said", class: "unseen", role: "status", "aria-live": "polite" }), keys.help);
    const skip = document.querySelector(".skip");
    skip.setAttribute("href", "#wire");
    skip.addEventListener("click", (event) => {
      event.preventDefault();
      this.timeline.list.element.focus();
    });
    this.turn("use");
    store.on("target", () => this.target());
    store.on("link", (why) => this.linked(why));
    store.on("reload", (reload) => this.reloaded(reload));
    store.on("selected", ({ n, show }) => {
      this.remember(n);
      if (show) this.turn("revisions");
      else if (document.body.dataset.part === "wire") this.turn("wire");
    });
    store.on("authorization", (step) => step?.url && say("The server requires a login: see Server."));
    const wanted = store.on("wire", () => {
      const n = Number(new URLSearchParams(location.hash.slice(1)).get("n"));
      if (!n || store.event(n)) wanted();
      if (n && store.event(n) && store.state.selected === null) store.select(n, { show: true });
    });
    setInterval(give_back, 10_000);
    this.theme(localStorage.getItem("mcprev-theme") ?? "");
  }

  /** The line between the wire and the message: moved by pointer or arrows. */
  divider() {
    const line = h("div", { class: "divider", role: "separator", tabindex: "0", "aria-label": "Height of the wire", "aria-orientation": "horizontal", "aria-valuemin": "15", "aria-valuemax": "80", "aria-controls": "wire" });
    let at = Number(localStorage.getItem("mcprev-divider")) || 40;
    const set = (percent) => {
      at = Math.max(15, Math.min(80, Math.round(percent)));
      line.setAttribute("aria-valuenow", String(at));
      document.documentElement.style.setProperty("--wire", `${at}%`);
      localStorage.setItem("mcprev-divider", String(at));
    };
    line.addEventListener("pointerdown", (event) => line.setPointerCapture(event.pointerId));
    line.addEventListener("pointermove", (event) => {
      if (!line.hasPointerCapture(event.pointerId)) return;
      const box = line.parentElement.getBoundingClientRect();
      set(((event.clientY - box.top) / box.height) * 100);
    });
    line.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -5, ArrowDown: 5 }[event.key];
      if (!by) return;
      event.preventDefault();
      set(at + by);
    });
    set(at);
    return line;
  }

  menu() {
    const act = (words, what, title) => h("button", { type: "button", title, on: { click: () => Promise.resolve(what()).catch((error) => this.tell(error.message)) } }, words);
    const menu = h("details", { class: "menu" }, h("summary", {}, "Session"), h("div", { class: "items" },
      act("Save, secrets masked", () => this.save("")), act("Save as it is", () => this.save("?raw=1"), "With tokens and other secrets"), act("Open a saved session…", () => this.open_file.click()), this.open_file,
      act("Start the server again", () => api.post("/api/restart")),
      act("Light or dark theme", () => this.theme({ "": "dark", dark: "light", light: "" }[document.documentElement.dataset.theme ?? ""])), act("Keyboard shortcuts", () => this.shortcuts.show(), "?")));
    menu.addEventListener("click", (event) => event.target.closest(".items button") && (menu.open = false));
    menu.addEventListener("keydown", (event) => event.key === "Escape" && menu.open && ((menu.open = false), menu.firstChild.focus(), event.stopPropagation()));
    document.addEventListener("click", (event) => document.querySelectorAll("details.menu[open]").forEach((each) => !each.contains(event.target) && (each.open = false)));
    return menu;
  }

  keys() {
    const go = (key, kind, words) => ({ keys: ["g", key], words, act: () => {
      this.turn("use");
      this.nav.go(kind);
    } });
    this.shortcuts = new Keys([
      { keys: ["j", "k"], either: true, words: "next, previous message", act: (key) => this.timeline.step(key === "j" ? 1 : -1) },
      { keys: ["Enter"], words: "open the message (on the list)", act: () => document.activeElement?.click?.() },
      { keys: ["[", "]"], either: true, words: "the message at an older, newer revision", act: (key) => this.detail.rail.step(key === "[" ? -1 : 1) },
      { keys: ["1", "2", "3", "4"], either: true, words: "message, revisions, HTTP, time", act: (key) => this.detail.turn(["message", "revisions", "http", "time"][Number(key) - 1]) },
      { keys: ["/"], words: "filter the messages", act: () => {
        this.turn("wire");
        document.getElementById("filter").focus();
      } },
      { keys: ["f"], words: "find a tool, resource or prompt", act: () => {
        this.turn("use");
        document.body.classList.remove("in-view");
        document.getElementById("find").focus();
      } },
      go("t", "tools", "go to the tools"), go("r", "resources", "go to the resources"), go("p", "prompts", "go to the prompts"),
      go("q", "questions", "go to the questions"), go("k", "tasks", "go to the tasks"), go("l", "logs", "go to the logs"), go("s", "server", "go to the server"),
      { keys: ["g", "w"], words: "go to the wire", act: () => {
        this.turn("wire");
        this.timeline.list.element.focus();
      } },
      { keys: ["Ctrl+Enter"], words: "call", act: () => this.nav.view?.panel?.start() },
      { keys: ["w"], words: "widen the wire, and back", act: () => document.body.classList.toggle("wide-wire") },
      { keys: ["?"], words: "this list", act: () => this.shortcuts.show() },
    ]);
    return this.shortcuts;
  }

  turn(part) {
    document.body.dataset.part = part;
    for (const tab of this.parts.children) {
      const chosen = tab.id === `part-${part}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.timeline.list.soon();
  }

  target() {
    const { target } = store.state;
    const info = target.server_info ?? {};
    const [glyph, word] = STATES[target.state] ?? ["·", target.state ?? ""];
    replace(this.name, h("b", {}, short(String(info.title ?? info.name ?? target.label ?? ""), 60)), info.version ? h("span", { class: "muted wide" }, ` ${short(String(info.version), 20)}`) : null, h("span", { class: "muted wide" }, target.transport ? ` · ${short(String(target.transport), 30)}` : ""));
    replace(this.state, h("span", { class: `glyph st-${STATES[target.state] ? target.state : "starting"}`, "aria-hidden": "true" }, glyph), h("span", { class: "wide" }, ` ${target.kind === "recording" ? "recording" : word}`));
    document.title = `${short(String(info.title ?? info.name ?? target.label ?? "mcprev"), 60)} – mcprev dev`;
    const options = [h("option", { value: "" }, target.revision ? `${target.revision} · negotiated` : "negotiated"), (target.revisions ?? []).map((each) => h("option", { value: each }, each))];
    const chosen = target.pinned ?? "";
    replace(this.revision, options);
    this.revision.value = (target.revisions ?? []).includes(chosen) ? chosen : "";
    this.revision.disabled = target.kind === "recording";
    if (target.kind === "recording") {
      this.show_banner(h("p", {}, "A saved session", target.file ? [": ", h("b", {}, short(String(target.file), 120))] : null, ". Nothing is sent. ", h("button", { type: "button", on: { click: () => api.post("/api/live").catch((error) => this.tell(error.message)) } }, "Back to the server")));
    } else if (target.state === "failed" && target.error) this.show_banner(target_error(target.error));
    else if (!this.about_link) this.hide_banner();
  }

  choose() {
    api.post("/api/revision", { revision: this.revision.value || null }).catch((error) => this.tell(error.message));
  }

  reloaded(reload) {
    if (reload.state === "failed" && reload.error) this.show_banner(target_error(reload.error));
    else if (reload.state === "restarted") {
      say("The source changed: the server was started again.");
      if (!this.about_link) this.hide_banner();
    }
  }

  linked(why) {
    const { link } = store.state;
    document.body.classList.toggle("unlinked", link !== "open");
    if (link === "open") {
      this.about_link = false;
      this.target();
      return;
    }
    this.about_link = true;
    if (link === "refused") return ask_token(this.banner, () => location.reload());
    this.show_banner(h("p", { role: "alert" }, "○ ", why ?? "Connecting…"));
  }

  show_banner(content) {
    replace(this.banner, content);
    this.banner.hidden = false;
  }

  hide_banner() {
    this.banner.hidden = true;
    replace(this.banner);
  }

  /** Say what went wrong, for a while. */
  tell(text) {
    say(text);
    this.show_banner(h("p", { role: "alert" }, text, " ", h("button", { type: "button", class: "quiet", on: { click: () => this.hide_banner() } }, "Close")));
  }

  async save(query) {
    download(`${store.state.target.server_info?.name ?? "session"}.jsonl`, await api.text_of(`/api/save${query}`), "application/jsonl");
  }

  async open() {
    const [file] = this.open_file.files;
    this.open_file.value = "";
    if (!file) return;
    try {
      await api.post_file(`/api/open?name=${encodeURIComponent(file.name)}`, file);
    } catch (error) {
      this.tell(error.message);
    }
  }

  remember(n) {
    const fragment = new URLSearchParams(location.hash.slice(1));
    if (n === null) fragment.delete("n");
    else fragment.set("n", String(n));
    history.replaceState(null, "", `#${fragment}`);
  }

  theme(name) {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("mcprev-theme", name ?? "");
    this.timeline.list.soon();
  }
}

/** Ask for the address that the command printed, where the token is missing or wrong. */
function ask_token(place, then) {
  const field = h("input", { type: "text", "aria-label": "The address that mcprev dev printed", placeholder: "http://127.0.0.1:…/#token=…", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "token" }, h("p", {}, "This page needs the address that ", h("code", {}, "mcprev dev"), " printed: it holds the token of this session."), field, h("button", { type: "submit", class: "main" }, "Go on"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    api.use(field.value);
    then();
  });
  replace(place, form);
  place.hidden = false;
  field.focus();
}

const page = new Page();
const token = await api.authorize();
if (token) store.run(new AbortController().signal);
else ask_token(page.banner, () => location.reload());
