// The messages of the wire, drawn between two lanes: you on the left, the server on the right. A request opens a bar on the lane
// of who has to answer, the response ends it, so what runs at the same time and what is asked inside is seen at a glance.

import * as api from "./api.js";
import { append, bytes, h, milliseconds, replace, short, svg, table } from "./dom.js";
import { List } from "./list.js";
import * as store from "./store.js";

const SLOTS = 4;
const ROW = 26;

/** The bars that are open after each event: four of the server in the low half of a byte, four of yours in the high half. */
export class Lanes {
  constructor() {
    this.clear();
  }

  clear() {
    this.after = new Uint8Array(4096);
    this.slot = new Uint8Array(4096);
    this.used = 0;
    this.open = new Map();
    this.holders = new Uint32Array(2 * SLOTS);
  }

  feed(event) {
    if (this.used === this.after.length) {
      for (const name of ["after", "slot"]) {
        const wider = new Uint8Array(this.used * 2);
        wider.set(this[name]);
        this[name] = wider;
      }
    }
    let slot = 255;
    if (event.shape === "request") {
      if (event.dir === "out" && event.call) this.end(`asked ${event.call}`);
      // What stays open as long as the connection is drawn as a hairline beside the others.
      slot = event.method === "subscriptions/listen" ? SLOTS - 1 : this.free(event.dir === "out" ? 0 : SLOTS);
      this.begin(event.n, slot, event.conn);
    } else if (event.answers !== undefined && event.answers !== null) {
      const found = this.open.get(event.answers);
      if (found) slot = found.slot;
      if (found && (store.is_answer(event) || event.method === "notifications/cancelled")) this.end(event.answers);
      if (asks(event) && event.call) this.begin(`asked ${event.call}`, this.free(SLOTS), event.conn);
    } else if (event.kind === "closed") {
      for (const [key, found] of this.open) if (found.conn === event.conn) this.end(key);
    }
    let mask = 0;
    for (let each = 0; each < 2 * SLOTS; each++) if (this.holders[each] > 0) mask |= 1 << each;
    this.slot[this.used] = slot;
    this.after[this.used] = mask;
    this.used++;
  }

  free(side) {
    let slot = side;
    while (slot < side + SLOTS - 2 && this.holders[slot] > 0) slot++;
    return slot;
  }

  begin(key, slot, conn) {
    this.holders[slot]++;
    this.open.set(key, { slot, conn });
  }

  end(key) {
    const found = this.open.get(key);
    if (!found) return;
    this.open.delete(key);
    this.holders[found.slot]--;
  }

  drop(spare) {
    this.after.copyWithin(0, spare, this.used);
    this.slot.copyWithin(0, spare, this.used);
    this.used -= spare;
  }
}

/** Whether a result asks: without sessions, a server asks by a result, and the answer comes with a request of its own. */
const asks = (event) => event.shape === "result" && event.dir === "in" && event.label === "input_required";

/** One word of how a message is drawn and announced. */
export function role(event) {
  if (event.kind !== "message") return event.kind;
  if (event.method === "notifications/progress") return "progress";
  if (event.shape === "request") return event.dir === "in" ? "question" : "request";
  if (asks(event)) return "question";
  if (event.shape === "error") return "error";
  if (event.shape === "result") return event.dir === "out" ? "reply" : "response";
  return event.shape || "message";
}

export class Timeline {
  constructor() {
    this.lanes = new Lanes();
    this.rows = null; // numbers of the events that are shown; null: all
    this.filter = { text: "", show: "all", found: null };
    this.seen = 0;
    this.list = new List({
      label: "Messages on the wire", height: ROW, columns: 6,
      count: () => this.rows?.length ?? store.count(),
      row: (index) => this.row(this.at(index)),
      open: (index, chosen) => store.select(this.at(index).n, { show: chosen }),
      empty: () => (this.rows === null ? "Nothing on the wire yet." : this.filter.show === "pinned" && !this.filter.text ? "No message is pinned: choose one, and press Pin." : "No message fits the filter."),
    });
    this.list.drawn = (from, to) => this.overview(from, to);
    this.made();
    store.on("wire", (added) => this.added(added));
    store.on("verdict", () => this.list.soon());
    store.on("call", () => this.list.soon());
    store.on("pinned", () => (this.filter.show === "pinned" ? this.sift() : this.list.soon()));
    store.on("trimmed", (spare) => {
      this.lanes.drop(spare);
      this.sift();
    });
    store.on("forgotten", () => {
      this.lanes.clear();
      this.sift();
    });
    store.on("selected", ({ n }) => this.show(n));
  }

  made() {
    const search = h("input", { type: "search", id: "filter", placeholder: "Filter: method, text…", "aria-label": "Filter messages by method or text", autocomplete: "off", spellcheck: "false" });
    search.addEventListener("input", () => {
      this.filter.text = search.value.trim().toLowerCase();
      this.filter.found = null;
      clearTimeout(this.asking);
      if (this.filter.text) this.asking = setTimeout(() => this.search(), 150);
      this.sift();
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        search.value = "";
        search.dispatchEvent(new Event("input"));
      } else if (event.key === "Enter" || event.key === "ArrowDown") {
        event.preventDefault();
        this.list.element.focus();
      }
    });
    const which = h("select", { "aria-label": "Which messages" },
      [["all", "All"], ["mine", "Without mcprev's own"], ["problems", "With problems"], ["out", "You → server"], ["in", "Server → you"], ["pinned", "Pinned"]].map(([value, words]) => h("option", { value }, words)));
    which.addEventListener("change", () => {
      this.filter.show = which.value;
      this.sift();
    });
    this.number = h("span", { class: "number", role: "status" });
    this.latest = h("button", { type: "button", class: "latest", hidden: true, on: { click: () => {
      this.list.following = true;
      this.list.soon();
    } } }, "Newest ↓");
    this.canvas = h("canvas", { class: "overview", "aria-hidden": "true" });
    const jump = (event) => {
      if (event.buttons === 0 && event.type !== "pointerdown") return;
      const box = this.canvas.getBoundingClientRect();
      const part = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
      this.list.element.scrollTop = part * this.list.count() * ROW - this.list.element.clientHeight / 2;
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      jump(event);
    });
    this.canvas.addEventListener("pointermove", jump);
    this.element = h("div", { class: "timeline" },
      h("div", { class: "bar" }, h("h2", { class: "unseen" }, "Wire"), search, which, this.latest, this.number),
      h("div", { class: "heads", "aria-hidden": "true" }, h("span", { class: "c-n" }, "#"), h("span", { class: "c-at" }, "time"), h("span", { class: "c-lanes" }, h("span", {}, "you"), h("span", {}, "server")), h("span", { class: "c-label" }, "message"), h("span", { class: "c-took" }, "took"), h("span", { class: "c-verdict" }, "schema")),
      this.list.box, this.canvas);
  }

  at(index) {
    return this.rows === null ? store.at_index(index) : store.event(this.rows[index]) ?? { n: this.rows[index], kind: "missing", dir: "in", label: "" };
  }

  added(events) {
    for (const event of events) this.lanes.feed(event);
    if (this.rows !== null) for (const event of events) if (this.passes(event)) this.rows.push(event.n);
    this.told();
    this.list.soon();
  }

  passes(event) {
    const { text, show, found } = this.filter;
    if (show === "mine" && event.own) return false;
    if (show === "pinned" && !store.state.pinned.has(event.n)) return false;
    if (show === "problems" && !event.problems && event.kind !== "invalid") return false;
    if ((show === "out" || show === "in") && event.dir !== show) return false;
    if (!text) return true;
    return found?.has(event.n) || event.method?.toLowerCase().includes(text) || event.label?.toLowerCase().includes(text) || false;
  }

  sift() {
    const { text, show } = this.filter;
    const chosen = store.state.selected;
    if (!text && show === "all") this.rows = null;
    else {
      this.rows = [];
      for (let index = 0; index < store.count(); index++) {
        const event = store.at_index(index);
        if (this.passes(event)) this.rows.push(event.n);
      }
    }
    this.list.active = -1;
    if (chosen !== null) this.show(chosen);
    this.told();
    this.list.soon();
  }

  async search() {
    const text = this.filter.text;
    try {
      const { matches } = await api.get(`/api/search?text=${encodeURIComponent(text)}`);
      if (this.filter.text !== text) return;
      this.filter.found = new Set(matches);
      this.sift();
    } catch {
      this.filter.found = null; // what the page itself holds is searched in any case
    }
  }

  told() {
    const total = store.count();
    replace(this.number, this.rows === null ? `${total.toLocaleString("en")}` : `${this.rows.length.toLocaleString("en")} of ${total.toLocaleString("en")}`);
  }

  /** Bring an event into view and mark it. */
  show(n) {
    const index = n === null ? -1 : this.rows === null ? n - store.oldest() : this.rows.indexOf(n);
    if (index < 0 || index >= this.list.count() || this.list.active === index) return;
    this.list.move(index, { quiet: true });
  }

  /** Go some rows on. */
  step(by) {
    this.list.move((this.list.active < 0 ? this.list.count() - 1 : this.list.active) + (this.list.active < 0 ? 0 : by));
  }

  row(event) {
    const chosen = store.event(store.state.selected);
    const same = chosen && event.call && event.call === chosen.call;
    const kind = role(event);
    const took = store.is_answer(event) && event.answers ? event.at - (store.event(event.answers)?.at ?? event.at) : null;
    const cell = (name, ...children) => h("span", { role: "gridcell", class: `c-${name}` }, ...children);
    return h("div", { role: "row", class: `row k-${kind}${event.own ? " own" : ""}${same ? " same" : ""}` },
      cell("n", String(event.n)),
      cell("at", time(event.at)),
      cell("lanes", h("span", { class: "unseen" }, event.dir === "out" ? "you to server" : "server to you"), this.drawing(event, kind)),
      cell("label", this.label(event, kind)),
      cell("took", took === null ? "" : milliseconds(took)),
      cell("verdict", verdict(event)));
  }

  label(event, kind) {
    const words = table({
      notification: "notifies", response: "result", reply: "your answer", error: "error", progress: "progress", question: "asks", invalid: "not a message",
      opened: "connection opened", closed: "connection closed", stderr: "stderr", exchange: "HTTP", missing: "not kept", login: "login", lost: "response lost",
    });
    const status = event.exchange?.status;
    const named = kind === "progress" || (event.label && event.answers && kind !== "error"); // the bar says what it answers
    return [
      store.state.pinned.has(event.n) ? h("span", { class: "what" }, "★ pinned") : null,
      kind === "request" ? null : h("span", { class: "what" }, words[kind] ?? kind),
      event.method && !named ? h("b", {}, short(event.method.replace(/^notifications\//, ""), 60)) : null,
      event.label && event.label !== event.method && !asks(event) ? h("span", { class: "about" }, short(event.label, 100)) : null,
      status >= 400 ? h("span", { class: "status" }, `HTTP ${status}`) : null,
    ];
  }

  drawing(event, kind) {
    const index = event.n - store.oldest();
    const wide = this.element.clientWidth > 560 ? 136 : 92;
    const [left, right] = [22, wide - 22];
    const middle = ROW / 2;
    const picture = svg("svg", { width: wide, height: ROW, viewBox: `0 0 ${wide} ${ROW}`, "aria-hidden": "true", focusable: "false" });
    append(picture, svg("line", { class: "lane", x1: left, x2: left, y1: 0, y2: ROW }), svg("line", { class: "lane", x1: right, x2: right, y1: 0, y2: ROW }));
    const after = this.lanes.after[index] ?? 0;
    const before = index > 0 ? this.lanes.after[index - 1] : 0;
    for (let slot = 0; slot < 2 * SLOTS; slot++) {
      const [was, is] = [before & (1 << slot), after & (1 << slot)];
      if (!was && !is) continue;
      const server = slot < SLOTS;
      const x = server ? right - 3 + slot * 5 : left - 3 - (slot - SLOTS) * 5;
      append(picture, svg("rect", { class: `busy${server ? "" : " yours"}${slot === SLOTS - 1 ? " always" : ""}`, x: slot === SLOTS - 1 ? right + 16 : x, width: slot === SLOTS - 1 ? 1.5 : 6, y: was ? 0 : middle, height: (is ? ROW : middle) - (was ? 0 : middle) }));
    }
    if (event.kind === "message" || ["exchange", "invalid", "login", "lost"].includes(event.kind)) {
      const slot = this.lanes.slot[index] ?? 255;
      const from = slot < SLOTS ? right - 4 : right - 1;
      const to = slot !== 255 && slot >= SLOTS ? left + 4 : left + 1;
      const out = event.dir === "out";
      const tip = out ? from : to;
      const turn = out ? -1 : 1;
      append(picture,
        svg("line", { class: "arrow", x1: to, x2: from, y1: middle, y2: middle }),
        kind === "progress"
          ? svg("circle", { class: "tip", cx: tip + turn * 3, cy: middle, r: 3 })
          : svg("path", { class: "tip", d: `M${tip} ${middle} l${turn * 7} -4 v8 z` }));
      if (kind === "question") append(picture, svg("circle", { class: "ask", cx: wide / 2, cy: middle, r: 7.5 }), svg("text", { x: wide / 2, y: middle + 4 }, "?"));
      if (["error", "invalid", "lost"].includes(kind)) append(picture, svg("circle", { class: "fail", cx: wide / 2, cy: middle, r: 7.5 }), svg("text", { x: wide / 2, y: middle + 4 }, "!"));
    } else if (event.kind === "opened" || event.kind === "closed") {
      append(picture, svg("line", { class: "mark", x1: left, x2: right, y1: middle, y2: middle }), svg("circle", { class: event.kind === "opened" ? "mark full" : "mark", cx: wide / 2, cy: middle, r: 3 }));
    } else append(picture, svg("circle", { class: "mark full", cx: right, cy: middle, r: 3 }));
    return picture;
  }

  /** A strip of all events: how many at a time, where there are problems, and what is in view. */
  overview(from, to) {
    this.latest.hidden = this.list.following;
    const canvas = this.canvas;
    const wide = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
    const tall = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
    if (canvas.width !== wide || canvas.height !== tall) [canvas.width, canvas.height] = [wide, tall];
    const paint = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    paint.clearRect(0, 0, wide, tall);
    const total = this.list.count();
    if (total === 0) return;
    const color = (name) => style.getPropertyValue(name);
    paint.fillStyle = color("--tint");
    paint.fillRect((from / total) * wide, 0, Math.max(3, ((to - from) / total) * wide), tall);
    const each = Math.max(1, wide / total);
    const stride = Math.max(1, Math.floor(total / wide));
    for (let pixel = 0; pixel < Math.min(wide, total); pixel++) {
      const start = total <= wide ? pixel : Math.floor((pixel / wide) * total);
      let [bad, asks, most] = [false, false, 0];
      for (let index = start; index < Math.min(total, start + Math.min(stride, 64)); index++) {
        const event = this.at(index);
        bad ||= event.problems > 0 || event.shape === "error" || event.kind === "invalid";
        asks ||= event.shape === "request" && event.dir === "in";
        most = Math.max(most, event.size ?? 0);
      }
      const high = tall * Math.min(1, 0.25 + Math.log10(1 + most) / 7);
      paint.fillStyle = color(bad ? "--bad" : asks ? "--ask" : "--faint");
      paint.fillRect((start / total) * wide, tall - high, Math.max(1, Math.min(each - 1, 6 * devicePixelRatio)), high);
    }
  }
}

function time(at) {
  if (at === undefined) return "";
  return at < 1 ? `${(at * 1000).toFixed(1)} ms` : `${at.toFixed(at < 1000 ? 3 : 1)} s`;
}

function verdict(event) {
  if (event.kind === "invalid") return h("span", { class: "v bad" }, "✕ invalid");
  if (event.kind !== "message") return event.exchange?.status ? h("span", { class: "v" }, String(event.exchange.status)) : "";
  if (event.problems === null || event.problems === undefined) return h("span", { class: "v" }, "·", h("span", { class: "unseen" }, "not judged"));
  if (event.problems === 0) return h("span", { class: "v ok" }, "✓ ok");
  return h("span", { class: "v bad" }, `✕ ${event.problems} problem${event.problems === 1 ? "" : "s"}`);
}

/** "12 kB" of an event. */
export const size_of = (event) => (event.size === undefined ? "" : bytes(event.size));
