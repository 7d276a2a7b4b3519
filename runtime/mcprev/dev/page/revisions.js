// The same message at every other revision: what an older or newer peer is told, what is lost, changed or refused, and by which
// rule of the ladder. What mcprev computes and what the server was seen to send are kept apart.

import * as api from "./api.js";
import { append, h, replace, say, short, table } from "./dom.js";
import { type_name } from "./explore.js";
import * as json from "./json.js";
import * as store from "./store.js";

export const OUTCOMES = table({
  same: ["●", "same"], changed: ["◐", "changed"], lost: ["◔", "lost"], refused: ["✕", "refused"], invalid: ["!", "invalid"], absent: ["○", "not sent"],
});
/** How much of a value stands beside another: what differs is to be seen, not what is the same. */
const BRIEF = 240;
const WHAT = table({ dropped: ["−", "lost"], added: ["+", "added"], changed: ["~", "changed"] });
/** What happened to a member; one of the envelope, which each revision has in its own form, is no data. */
const named = (change) => (change.envelope ? ["·", "envelope"] : WHAT[change.what] ?? ["·", change.what]);

/** The outcome of a message at a revision, in few words. */
function words(found) {
  const [, word] = OUTCOMES[found.outcome] ?? ["", found.outcome];
  if (found.outcome === "lost") return `lost ${found.lost || ""}`.trim();
  if (found.outcome === "changed") return `changed ${found.changes || ""}`.trim();
  return word;
}

/** All revisions as stops on a line; the message's own is filled. */
export class Rail {
  constructor(open) {
    this.open = open;
    this.loaded = () => {};
    this.found = [];
    this.cache = new Map();
    this.element = h("div", { class: "rail", role: "group", "aria-label": "This message at each revision" });
  }

  load(n, message) {
    this.loading = this.ask(n, message);
  }

  async ask(n, message) {
    this.n = n;
    this.found = [];
    this.element.hidden = !message;
    if (!message) return;
    const known = this.cache.get(n);
    if (known) {
      this.found = known;
      this.draw();
      return this.loaded();
    }
    if (this.element.childElementCount === 0) this.waiting();
    try {
      const found = await api.get(`/api/event/${n}/revisions`);
      if (this.n !== n) return;
      this.found = found;
      if (this.cache.size > 500) this.cache.clear();
      this.cache.set(n, found);
      this.draw();
      this.loaded();
    } catch (error) {
      if (this.n === n) replace(this.element, h("p", { class: "hint" }, error.message));
    }
  }

  waiting() {
    replace(this.element, h("p", { class: "hint" }, "Computing it at every revision…"));
  }

  own() {
    const event = store.event(this.n);
    return event?.revision ?? store.state.target.revision;
  }

  draw() {
    const own = this.own();
    if (this.found.length === 0) return replace(this.element, h("p", { class: "hint" }, "The revision of this message is not known, so it cannot be shown at others."));
    replace(this.element, this.found.map((each) => {
      const [glyph] = OUTCOMES[each.outcome] ?? ["·"];
      const here = each.revision === own;
      return h("button", { type: "button", class: `stop o-${here ? "own" : each.outcome}`, "data-revision": each.revision, on: { click: () => this.open(each.revision) } },
        h("span", { class: "glyph", "aria-hidden": "true" }, here ? "◆" : glyph),
        h("span", { class: "name" }, each.revision),
        h("span", { class: "outcome" }, here ? "on the wire" : words(each)));
    }));
    this.mark(this.marked);
  }

  mark(revision) {
    this.marked = revision;
    for (const stop of this.element.querySelectorAll(".stop")) {
      if (stop.dataset.revision === revision) stop.setAttribute("aria-current", "true");
      else stop.removeAttribute("aria-current");
      if (stop.dataset.revision === (revision ?? this.own())) this.element.scrollLeft = stop.offsetLeft - (this.element.clientWidth - stop.offsetWidth) / 2;
    }
  }

  /** The revision that is so many stops on. */
  async step(by) {
    await this.loading;
    if (this.found.length === 0) return;
    const from = store.state.revision ?? this.own();
    const place = this.found.findIndex((each) => each.revision === from);
    const next = this.found[Math.max(0, Math.min(this.found.length - 1, (place < 0 ? 0 : place) + by))];
    this.open(next.revision);
    say(`${next.revision}: ${words(next)}`);
  }
}

/** The view of a message at the chosen revision; the list of all where none is chosen. */
export function comparison(loaded, rail) {
  const { revision } = store.state;
  if (!revision || revision === rail.own()) return overview(rail);
  const box = h("div", { class: "comparison" }, h("p", { class: "hint" }, `Computing it at ${revision}…`));
  api.get(`/api/event/${loaded.n}/revisions/${encodeURIComponent(revision)}`).then(
    (found) => store.state.selected === loaded.n && store.state.revision === revision && replace(box, pair(loaded, revision, { changes: [], problems: [], ...found }, rail)),
    (error) => replace(box, h("p", { class: "error" }, error.message)),
  );
  return box;
}

function overview(rail) {
  const own = rail.own();
  return [
    h("p", { class: "lead" }, `This message went over the wire at ${own ?? "its revision"}. Choose a revision above to see what a peer of that revision gets instead.`),
    h("table", { class: "outcomes" }, h("caption", { class: "unseen" }, "This message at each revision"),
      h("tbody", {}, rail.found.map((each) => {
        const [glyph] = OUTCOMES[each.outcome] ?? ["·"];
        const here = each.revision === own;
        return h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "quiet", on: { click: () => rail.open(each.revision) } }, each.revision)),
          h("td", { class: `o-${here ? "own" : each.outcome}` }, `${here ? "◆" : glyph} ${here ? "on the wire" : words(each)}`),
          h("td", { class: "muted" }, each.counterpart ?? ""));
      }))),
  ];
}

function pair(loaded, revision, found, rail) {
  const own = rail.own();
  const here = rail.found.find((each) => each.revision === revision);
  const [mine, theirs] = found.text ? json.differences(loaded.text, found.text) : [[], []];
  return [
    h("h3", { class: "verdict-line" }, h("span", { class: `o-${here?.outcome}` }, `${(OUTCOMES[here?.outcome] ?? [""])[0]} ${here ? words(here) : ""}`), ` for a peer of ${revision}`,
      h("span", { class: "label computed" }, "computed by the conversion rules of mcprev")),
    found.counterpart ? h("p", { class: "counterpart" }, found.counterpart) : null,
    found.refusal ? refusal(found.refusal) : null,
    found.changes.length > 0 ? changes(found.changes) : !found.refusal && here?.outcome === "same" ? h("p", { class: "hint" }, "Nothing changes: the message is the same at both revisions.") : null,
    found.problems?.length ? h("div", {}, h("p", { class: "bad" }, `Not valid at ${revision}:`), h("ul", { class: "problems" }, found.problems.slice(0, 50).map(({ path, text }) => h("li", {}, h("code", {}, path), " ", short(text, 400))))) : null,
    h("div", { class: "pair" },
      h("section", { "aria-label": `At ${own}, on the wire` }, h("h4", {}, `${own} `, h("span", { class: "label" }, "on the wire"), loaded.type ? [" ", type_name(loaded.type, own)] : null), json.view(loaded.text, { marks: mine, label: `The message at ${own}`, longest: BRIEF })),
      h("section", { "aria-label": `At ${revision}, computed` }, h("h4", {}, `${revision} `, h("span", { class: "label computed" }, "computed"), found.type ? [" ", type_name(found.type, revision)] : null),
        found.text ? json.view(found.text, { marks: theirs, label: `The message at ${revision}`, longest: BRIEF }) : h("p", { class: "empty" }, found.refusal ? "Refused: nothing is sent." : "Not sent at this revision."))),
    found.headers?.length ? h("table", { class: "headers" }, h("caption", {}, `HTTP headers at ${revision}`), h("tbody", {}, found.headers.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))))) : null,
    observed(loaded, revision, found),
  ];
}

function refusal({ rule, sentence, path, text }) {
  return h("div", { class: "refusal" }, h("p", {}, h("b", {}, "✕ Refused"), path ? [" at ", h("code", {}, path)] : null, text ? `: ${text}` : ""), sentence ? h("p", {}, coded(sentence)) : null, rule ? h("p", {}, h("code", { class: "rule" }, rule)) : null);
}

/** What changes, step by step down or up the ladder. */
function changes(found) {
  const steps = new Map();
  for (const change of found) {
    if (!steps.has(change.step)) steps.set(change.step, []); // in the order in which they are climbed
    steps.get(change.step).push(change);
  }
  return h("ol", { class: "steps" }, [...steps].map(([step, list]) => h("li", {}, h("h4", {}, climbed(step)),
    h("ul", {}, by_rule(list.slice(0, 100)).map((group) => {
      const [{ rule, sentence, what }] = group;
      return h("li", { class: `change ${group.every((each) => each.what === what) ? named(group[0])[1] : "changed"}` },
        group.map((change, index) => {
          const [glyph, word] = named(change);
          return h("p", { class: "place" }, h("span", { class: `what w-${word}` }, `${glyph} ${word}`), h("code", {}, short(change.path ?? "", 200)),
            h("span", { class: "values" }, value(change.old, "old"), has(change.old) && has(change.new) ? " → " : null, value(change.new, "new")),
            index === 0 ? h("code", { class: "rule" }, rule) : null);
        }),
        sentence ? h("p", { class: "why" }, coded(sentence)) : null);
    })), list.length > 100 ? h("p", { class: "hint" }, `… and ${list.length - 100} more by this step`) : null)));
}

/** What one rule changes in one object, together. */
function by_rule(list) {
  const groups = [];
  for (const change of list) {
    const last = groups[groups.length - 1];
    if (last?.[0].rule === change.rule) last.push(change);
    else groups.push([change]);
  }
  return groups;
}

const has = (text) => text !== undefined && text !== null;
const value = (text, name) => (has(text) ? h("code", { class: name }, short(spelled(text), 160)) : null);

/** A step of the ladder as the two revisions between which it leads. */
function climbed(step) {
  const [, revision, way] = /^(.+)\/(up|down)$/.exec(step) ?? [];
  const all = store.state.target.revisions ?? [];
  const older = all[all.indexOf(revision) - 1];
  if (!older) return step;
  return way === "down" ? `${revision} → ${older}` : `${older} → ${revision}`;
}

/** A sentence with what stands between backticks as code. */
const coded = (sentence) => String(sentence).split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

const spelled = (value) => (typeof value === "string" && json.parse(value) !== null ? value : JSON.stringify(value));

/** What the server itself sends at that revision: asked for by hand, and labelled apart. */
function observed(loaded, revision, computed) {
  const event = store.event(loaded.n);
  const call = event?.call && store.state.calls.get(event.call);
  if (!call) return null;
  const root = call.again_of ?? call.call;
  const again = [...store.state.calls.values()].reverse().find((each) => each.again_of === root && each.revision === revision);
  const box = h("section", { class: "observed", "aria-label": `Observed at ${revision}` }, h("h4", {}, `${revision} `, h("span", { class: "label seen" }, "observed")));
  const button = h("button", { type: "button" }, again ? "Ask again" : `Ask the server again at ${revision}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await store.call(call.method, store.params_text(call), { revision, again_of: root });
      say(`Asked again at ${revision}.`);
    } catch (error) {
      append(box, h("p", { class: "error" }, error.message));
      button.disabled = false;
    }
  });
  if (!again) return append(box, h("p", { class: "hint" }, "The message above is what mcprev would send. Ask the server to see what it sends itself to a client of that revision."), button);
  if (["open", "asking"].includes(again.state)) return append(box, h("p", { class: "hint" }, again.state === "asking" ? "The server asks a question first: answer it in “Questions”." : "Waiting for the server…"));
  const answer = again.response ?? again.last ?? null;
  if (answer === null) return append(box, h("p", { class: "error" }, again.error?.message ?? "No response."), button);
  if (!store.is_answer(event) || event.dir !== "in") {
    return append(box, h("p", {}, `Asked at ${revision}: messages `, h("button", { type: "button", class: "quiet", on: { click: () => store.select(again.first) } }, `#${again.first}`), " to ", h("button", { type: "button", class: "quiet", on: { click: () => store.select(again.last) } }, `#${again.last}`), "."), button);
  }
  const body = h("div", {}, h("p", { class: "hint" }, "Loading…"));
  api.get(`/api/event/${answer}`).then((seen) => {
    const [, marks] = computed.text ? json.differences(without_id(computed.text), without_id(seen.text)) : [[], []];
    replace(body,
      h("p", {}, marks.length === 0 && computed.text ? "✓ As computed." : `Differs from what was computed in ${marks.length} place${marks.length === 1 ? "" : "s"}.`, " ", h("button", { type: "button", class: "quiet", on: { click: () => store.select(answer) } }, `#${answer}`)),
      json.view(without_id(seen.text), { marks, label: `The message observed at ${revision}`, longest: BRIEF }));
  }, (error) => replace(body, h("p", { class: "error" }, error.message)));
  return append(box, body, button);
}

/** The text of a message without its id, which is another one at each call. */
function without_id(text) {
  const root = json.parse(text ?? "");
  if (root?.kind !== "object") return text ?? "";
  return json.compact({ kind: "object", members: root.members.filter(([name]) => name !== "id") });
}
