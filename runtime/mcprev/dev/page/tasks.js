// Tasks of the server: followed, answered, cancelled.

import * as api from "./api.js";
import { h, replace, say, short, table } from "./dom.js";
import * as json from "./json.js";
import { card } from "./questions.js";
import { result } from "./result.js";
import * as store from "./store.js";

const SHAPE = table({ working: "◌", input_required: "?", completed: "✓", failed: "✕", cancelled: "○" });

async function act(task, what) {
  try {
    await api.post(`/api/task/${encodeURIComponent(task)}`, { do: what });
  } catch (error) {
    say(error.message);
  }
}

/** The result of a task, which stands in an event of the wire. */
function outcome(n) {
  const place = h("div", {}, h("button", { type: "button", class: "quiet", on: { click: () => store.select(n) } }, `result #${n}`));
  api.get(`/api/event/${n}`).then(({ text }) => {
    const found = json.at(json.parse(text ?? ""), "result");
    const node = json.at(found, "status") ? json.at(found, "result") : found; // in that of tasks/get it is a member of the task
    if (node) place.append(result("tools/call", json.compact(node)));
  }, () => {});
  return place;
}

/** One task with what can be done about it. */
export function task_card(task) {
  const over = ["completed", "failed", "cancelled"].includes(task.status);
  const questions = [...store.state.questions.values()].filter((each) => each.state === "open" && (each.task === task.task || (task.call && each.call === task.call)));
  return h("section", { class: `task t-${short(String(task.status), 20)}`, "aria-label": `Task ${short(task.task, 60)}` },
    h("h3", {}, h("span", { "aria-hidden": "true" }, `${SHAPE[task.status] ?? "·"} `), short(String(task.status), 40), " ", h("code", { class: "muted" }, short(task.task, 60))),
    task.message ? h("p", {}, short(task.message, 1000)) : null,
    task.created ? h("p", { class: "muted" }, `created ${short(String(task.created), 60)}`) : null,
    questions.map(card),
    task.result ? outcome(task.result) : null,
    h("div", { class: "buttons" }, h("button", { type: "button", on: { click: () => act(task.task, "get") } }, "Refresh the status"),
      h("button", { type: "button", on: { click: () => act(task.task, "result") } }, "Result"),
      over ? null : h("button", { type: "button", on: { click: () => act(task.task, "cancel") } }, "Cancel it")));
}

export function tasks_view() {
  const list = h("div", { class: "cards" });
  const draw = () => {
    const all = [...store.state.tasks.values()].reverse().slice(0, 100);
    replace(list, all.length === 0 ? h("p", { class: "empty" }, "No tasks. If the server supports tasks, choose “as a task” beside Call.") : all.map(task_card));
  };
  draw();
  return { title: "Tasks", element: h("div", { class: "view" }, h("h2", {}, "Tasks"), list), ends: [store.on("task", draw)] };
}
