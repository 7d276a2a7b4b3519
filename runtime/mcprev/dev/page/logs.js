// Log messages of the server by level, and the lines of its stderr.

import * as api from "./api.js";
import { h, long, replace, say, short, table } from "./dom.js";
import { List } from "./list.js";
import * as store from "./store.js";

export const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const SHAPES = table({ debug: "·", info: "i", notice: "i", warning: "!", error: "✕", critical: "✕", alert: "✕", emergency: "✕", stderr: "▸" });

const text_of = (log) => (typeof log.data === "string" ? log.data : JSON.stringify(log.data));

export function logs_view() {
  let least = 0;
  let text = "";
  let shown = [];
  const opened = h("div", { class: "log-open", hidden: true });
  const list = new List({
    label: "Log messages", height: 24, columns: 4, count: () => shown.length,
    row: (index) => {
      const log = shown[index];
      const serious = LEVELS.indexOf(log.level) >= 4;
      return h("div", { role: "row", class: `row log${serious ? " serious" : ""}` },
        h("span", { role: "gridcell", class: "c-at" }, log.at === undefined ? "" : log.at < 1 ? `${(log.at * 1000).toFixed(1)} ms` : `${log.at.toFixed(3)} s`),
        h("span", { role: "gridcell", class: `c-level l-${LEVELS.includes(log.level) ? log.level : "stderr"}` }, `${SHAPES[log.level] ?? "·"} ${short(String(log.level), 12)}`),
        h("span", { role: "gridcell", class: "c-logger" }, short(log.logger ?? "", 30)),
        h("span", { role: "gridcell", class: "c-text" }, short(text_of(log), 300)));
    },
    open: (index, chosen) => {
      const log = shown[index];
      replace(opened, long(text_of(log)));
      opened.hidden = false;
      if (log.n && chosen) store.select(log.n, { show: false });
    },
    empty: () => (store.state.logs.length === 0 ? "No log messages yet." : "No log message fits the filter."),
  });
  const sift = () => {
    shown = store.state.logs.filter((log) => (log.level === "stderr" ? least === 0 : LEVELS.indexOf(log.level) >= least) && (!text || text_of(log).toLowerCase().includes(text)));
    list.soon();
  };
  const level = h("select", { "aria-label": "Show from level", on: { change: () => {
    least = Number(level.value);
    sift();
  } } }, LEVELS.map((name, index) => h("option", { value: String(index) }, index === 0 ? "all" : `from ${name}`)));
  const filter = h("input", { type: "search", placeholder: "Filter…", "aria-label": "Filter log messages", on: { input: () => {
    text = filter.value.trim().toLowerCase();
    sift();
  } } });
  const ask = h("select", { "aria-label": "Ask the server for log messages from level", on: { change: () => ask.value && api.post("/api/level", { level: ask.value }).catch((error) => say(error.message)) } },
    h("option", { value: "" }, "ask server for…"), LEVELS.map((name) => h("option", { value: name }, name)));
  sift();
  return { title: "Logs", element: h("div", { class: "view fills" }, h("h2", {}, "Logs"), h("div", { class: "bar" }, filter, level, ask), list.box, opened), ends: [store.on("log", sift)] };
}
