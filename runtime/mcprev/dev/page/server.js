// The server: who it says it is, what it can do, why it does not start, and its authorization step by step.

import * as api from "./api.js";
import { h, link, long, replace, say, short } from "./dom.js";
import * as json from "./json.js";
import { markdown } from "./markdown.js";
import * as store from "./store.js";

const NEWEST = 5000;
const STEPS = [["metadata", "Metadata", "Where the server says how to log in."], ["registration", "Registration", "How the authorization server knows this client."], ["consent", "Consent", "You agree in the browser."], ["tokens", "Tokens", "The tokens that were issued; secrets are masked."]];

/** The error of a target with its traceback, for the top of the page too. */
export function target_error(error) {
  return h("div", { class: "crash", role: "alert" }, h("p", { class: "bad" }, "✕ ", short(error.text ?? "The server failed.", 2000)),
    error.traceback ? long(error.traceback, { tabindex: "0", role: "group", "aria-label": "Traceback" }) : null,
    store.state.target.kind === "app" ? h("p", { class: "hint" }, "Fix it and save: the server starts again by itself. ") : null, h("button", { type: "button", on: { click: () => api.post("/api/restart").catch((failed) => say(failed.message)) } }, "Start it again"));
}

function authorization() {
  const steps = store.state.authorization;
  const failed = steps[steps.length - 1]?.step === "failed";
  if (steps.length === 0) return [h("p", { class: "hint" }, store.state.target.requires_authorization ? "The server requires authorization, which has not begun." : "This server was used without authorization.")];
  const reached = new Map();
  for (const each of steps) reached.set(each.step, [...(reached.get(each.step) ?? []), each]);
  return [
    h("ol", { class: "walk" }, STEPS.map(([name, title, about]) => {
      const found = reached.get(name);
      return h("li", { class: found ? "reached" : "" }, h("h4", {}, h("span", { "aria-hidden": "true" }, found ? "● " : "○ "), title, h("span", { class: "unseen" }, found ? " reached" : " not reached")), h("p", { class: "hint" }, about),
        found?.map(({ url, detail }) => [
          url ? h("p", {}, "Continue at ", link(url)) : null,
          detail && Object.keys(detail).length > 0 ? json.view(JSON.stringify(detail), { label: `${title} of the authorization` }) : null,
        ]));
    })),
    failed ? h("div", { class: "crash" }, h("p", { class: "bad" }, "✕ Authorization failed."), json.view(JSON.stringify(reached.get("failed").pop().detail ?? {}), { label: "Why authorization failed" })) : null,
  ];
}

/** What was heard of the server last, and which requests it has not answered; of the newest events. */
function activity() {
  const answered = new Set();
  const open = [];
  let last = null;
  for (let index = store.count() - 1, least = Math.max(0, index - NEWEST); index >= least; index--) {
    const event = store.at_index(index);
    if (last === null && event.dir === "in" && event.kind === "message") last = event;
    if (store.is_answer(event) || event.method === "notifications/cancelled") answered.add(event.answers);
    else if (event.shape === "request" && event.dir === "out" && !answered.has(event.n)) open.push(event);
  }
  const go = (event) => [h("button", { type: "button", class: "quiet", on: { click: () => store.select(event.n) } }, `#${event.n}`), ` ${short(event.method ?? "", 60)} `];
  return [
    h("div", {}, h("dt", {}, "last message"), h("dd", {}, last === null ? "none" : go(last))),
    h("div", {}, h("dt", {}, "without a response"), h("dd", {}, open.length === 0 ? "none" : open.slice(0, 20).map(go))),
  ];
}

export function server_view() {
  const box = h("div", { class: "view" });
  const heard = h("dl", { class: "facts-list" });
  let waiting = false;
  const hear = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      replace(heard, activity());
    });
  };
  const draw = () => {
    const { target } = store.state;
    const info = target.server_info ?? {};
    replace(box,
      h("h2", {}, short(String(info.title ?? info.name ?? "Server"), 120)),
      target.error ? target_error(target.error) : null,
      h("dl", { class: "facts-list" },
        [["name", info.title ?? info.name], ["version", info.version], ["state", target.state], ["transport", target.transport], ["revision", target.revision], ["era", target.era], ["it speaks", target.server_revisions?.join(", ")], ["command", target.label]]
          .filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, short(String(value), 500)))),
        info.websiteUrl ? h("div", {}, h("dt", {}, "website"), h("dd", {}, link(info.websiteUrl))) : null),
      heard,
      info.description ? h("p", {}, short(String(info.description), 2000)) : null,
      target.instructions ? [h("h3", {}, "Instructions"), markdown(String(target.instructions).slice(0, 200_000))] : null,
      h("h3", {}, "Capabilities"), Object.keys(target.capabilities ?? {}).length > 0 ? json.view(JSON.stringify(target.capabilities), { label: "Capabilities of the server" }) : h("p", { class: "hint" }, "It has declared none."),
      target.client_capabilities ? [h("h3", {}, "What this page can do for it"), json.view(JSON.stringify(target.client_capabilities), { label: "Capabilities of this client" })] : null,
      h("h3", {}, "Authorization"), authorization());
  };
  draw();
  hear();
  return { title: "Server", element: box, ends: [store.on("target", draw), store.on("authorization", draw), store.on("wire", hear)] };
}
