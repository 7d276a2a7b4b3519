// A tool called many times over the connection of the page: how often, how many at once, and how long the calls took.

import * as api from "./api.js";
import { h, replace, say, short } from "./dom.js";
import * as store from "./store.js";

const FIELDS = [
  ["calls", "calls", "100", "numeric"], ["seconds", "seconds", "", "decimal"], ["at_once", "at once", "1", "numeric"],
  ["rate", "started per second", "", "decimal"], ["warm_up", "warm-up seconds", "", "decimal"],
];
const TIMES = ["min", "mean", "p50", "p90", "p95", "p99", "max"];
const number = (value, digits = 1) => (typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: digits }) : "–");

/** The form and the figures of one tool; `arguments_of()` gives the arguments as JSON text, or null while they cannot be sent. */
export class Repeat {
  constructor(tool, arguments_of) {
    this.tool = tool;
    this.arguments_of = arguments_of;
    this.inputs = FIELDS.map(([name, words, value, mode]) => [name, words, h("input", { type: "text", inputmode: mode, value, autocomplete: "off", "aria-label": `Repeat: ${words}` })]);
    this.go = h("button", { type: "button", on: { click: () => this.start() } }, "Start");
    this.stop = h("button", { type: "button", hidden: true, on: { click: () => api.post("/api/repeat/stop").catch((error) => this.fail(error.message)) } }, "Stop");
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.figures = h("div", { class: "figures" });
    this.element = h("details", { class: "repeat" }, h("summary", {}, "Call it many times"),
      h("div", { class: "small-fields" }, this.inputs.map(([, words, input]) => h("label", {}, h("span", {}, words), input)), h("div", { class: "buttons" }, this.go, this.stop)),
      this.problem, this.figures);
    this.draw();
  }

  fail(text) {
    replace(this.problem, text);
    this.problem.hidden = !text;
  }

  async start() {
    this.fail("");
    const given = [];
    for (const [name, words, input] of this.inputs) {
      const typed = input.value.trim();
      const wrong = typed !== "" && !(Number(typed) > 0);
      input.setAttribute("aria-invalid", String(wrong));
      if (wrong) return this.fail(`“${short(typed, 20)}” is not a valid number for “${words}”.`);
      if (typed !== "") given.push(`,"${name}":${Number(typed)}`);
    }
    const text = this.arguments_of();
    if (text === null) return this.fail("The arguments are not JSON.");
    try {
      await api.post("/api/repeat", `{"tool":${JSON.stringify(this.tool)},"arguments":${text}${given.join("")}}`);
    } catch (error) {
      this.fail(error.message);
    }
  }

  /** Show how far it is, or what came out. */
  draw() {
    const found = store.state.repeat;
    const mine = found?.tool === this.tool;
    const running = found?.state === "running" || found?.state === "warming up";
    this.go.disabled = running || store.state.target.kind === "recording";
    this.stop.hidden = !(mine && running);
    if (!mine) return replace(this.figures, running ? h("p", { class: "hint" }, "Another tool is being called many times.") : null);
    if (running) {
      this.element.open = true;
      const bar = h("progress", { "aria-label": "Calls" });
      if (found.whole) Object.assign(bar, { max: found.whole, value: found.done });
      return replace(this.figures, h("div", { class: "progress" }, bar, h("span", { class: "muted" }, found.state === "warming up" ? "warming up" : `${number(found.done)}${found.whole ? ` of ${number(found.whole)}` : ""} calls, ${number(found.failed)} failed`)));
    }
    const pair = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const errors = Object.entries(found.errors ?? {});
    replace(this.figures,
      h("p", { class: found.state === "done" && !found.failed ? "ok" : "bad" }, found.state === "done" ? `${found.failed ? "✕" : "✓"} ${number(found.succeeded)} of ${number(found.calls)} succeeded in ${number(found.seconds, 2)} s` : `✕ ${found.state}${found.error ? `: ${found.error}` : ""}`),
      h("dl", { class: "totals" }, pair("calls a second", number(found.calls_per_second)), pair("failed", number(found.failed)), TIMES.map((name) => pair(`${name} ms`, number(found.milliseconds?.[name], 2)))),
      errors.length > 0 ? h("ul", { class: "problems" }, errors.map(([text, count]) => h("li", {}, `${number(count)} × ${short(text, 300)}`))) : null);
  }

  /** Called when something was told of a repetition. */
  told() {
    const found = store.state.repeat;
    this.draw();
    if (found?.tool === this.tool && found.state === "done") say(`${number(found.succeeded)} of ${number(found.calls)} calls succeeded, p95 ${number(found.milliseconds?.p95)} milliseconds.`);
  }
}
