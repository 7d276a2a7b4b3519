// What the server asks: answers to elicitation, sampling and roots, in a card where the call waits. Never a modal.

import * as api from "./api.js";
import { append, h, link, replace, say, short, table } from "./dom.js";
import { Form } from "./form.js";
import * as json from "./json.js";
import { markdown } from "./markdown.js";
import { messages, ways } from "./result.js";
import * as store from "./store.js";

const TITLES = table({ "elicitation/create": "The server asks you", "sampling/createMessage": "The server asks for a model's message", "roots/list": "The server asks for your roots" });
const cards = new Map();

/** The card of a question: made once, so that what is typed stays, whatever is drawn around it. */
export function card(question) {
  const known = cards.get(question.question);
  if (known) {
    known.update(question);
    return known.element;
  }
  const made = new Card(question);
  cards.set(question.question, made);
  if (cards.size > 200) cards.delete(cards.keys().next().value);
  return made.element;
}

store.on("question", (question) => {
  cards.get(question.question)?.update(question);
  if (question.state === "open" && !cards.has(question.question)) say(`${TITLES[question.method] ?? "The server asks"}: ${question.params?.message ?? question.method}`);
});
store.on("forgotten", () => cards.clear());

class Card {
  constructor(question) {
    this.question = question;
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.remember = h("input", { type: "checkbox" });
    this.body = h("div", { class: "card-body" });
    this.ended = h("p", { class: "muted", hidden: true });
    this.element = h("section", { class: "card", "aria-label": TITLES[question.method] ?? short(question.method, 80) },
      h("h3", {}, h("span", { class: "ask-mark", "aria-hidden": "true" }, "?"), TITLES[question.method] ?? short(question.method, 80)), this.body, this.ended, this.problem);
    const views = table({ "elicitation/create": () => this.elicitation(), "sampling/createMessage": () => this.sampling(), "roots/list": () => this.roots() });
    append(this.body, (views[question.method] ?? (() => this.other()))());
    this.update(question);
  }

  update(question) {
    this.question = question;
    const open = question.state === "open";
    this.element.classList.toggle("over", !open);
    this.body.hidden = !open;
    this.ended.hidden = open;
    replace(this.ended, question.state === "cancelled" ? "The server no longer waits for it." : `Answered${question.saved ? " by a saved answer" : ""}${question.action ? `: ${short(String(question.action), 40)}` : ""}.`);
  }

  async answer(text) {
    this.problem.hidden = true;
    const remember = this.remember.checked ? ',"remember":true' : "";
    try {
      await api.post(`/api/question/${encodeURIComponent(this.question.question)}`, text.replace(/\}$/, `${remember}}`));
      say("Answered.");
    } catch (error) {
      const [, inside, text] = /^content([.[]\S*) (.*)$/s.exec(error.message) ?? [];
      if (this.form && inside) {
        this.form.show([{ path: `$${inside}`, text }]);
        this.form.element.querySelector("[aria-invalid=true]")?.focus();
      } else this.show(error.message);
    }
  }

  buttons(list) {
    return h("div", { class: "buttons" }, list.map(([words, act, main]) => h("button", { type: "button", class: main ? "main" : null, on: { click: act } }, words)),
      h("label", { class: "remember" }, this.remember, "Give this answer from now on"));
  }

  elicitation() {
    const params = this.question.params ?? {};
    const message = typeof params.message === "string" ? params.message : "";
    const shown = h("div", { class: "message" }, markdown(message.slice(0, 20_000)));
    const decline = ["Decline", () => this.answer('{"action":"decline"}')];
    const cancel = ["Cancel", () => this.answer('{"action":"cancel"}')];
    if (params.mode === "url") {
      return [shown, h("p", {}, "It asks you to open: ", link(params.url)), h("p", { class: "hint" }, "Open it only if you trust this server with what the page asks for."),
        this.buttons([["I agree", () => this.answer('{"action":"accept"}'), true], decline, cancel])];
    }
    this.form = new Form(params.requestedSchema ?? { type: "object" }, { prefill: true, label: "Your answer" });
    const accept = () => {
      const content = this.form.get();
      if (content === null) return this.form.show([{ path: "$", text: "This is not JSON." }]);
      return this.answer(`{"action":"accept","content":${content}}`);
    };
    const warning = /password|secret|token|api.?key|credit.?card/i.test(`${message} ${JSON.stringify(params.requestedSchema ?? {}).slice(0, 5000)}`)
      ? h("p", { class: "warning" }, "! Servers must not ask for secrets in a form.") : null;
    return [shown, warning, this.form.element, this.buttons([["Accept", accept, true], decline, cancel])];
  }

  sampling() {
    const params = this.question.params ?? {};
    const node = json.parse(JSON.stringify(params));
    const text = h("textarea", { rows: "3", "aria-label": "Text of the answer", placeholder: "What the model says" });
    const model = h("input", { type: "text", value: "by-hand", "aria-label": "Model" });
    const reason = h("select", { "aria-label": "Stop reason" }, ["endTurn", "stopSequence", "maxTokens", "toolUse"].map((value) => h("option", { value }, value)));
    const whole = h("textarea", { class: "code", rows: "8", spellcheck: "false", "aria-label": "Result as JSON" });
    let raw = false;
    const composed = () => JSON.stringify({ role: "assistant", content: { type: "text", text: text.value }, model: model.value, stopReason: reason.value });
    const answer = () => {
      const result = raw ? whole.value : composed();
      if (json.parse(result) === null) return this.show("This is not JSON.");
      return this.answer(`{"result":${result}}`);
    };
    const facts = ["systemPrompt", "maxTokens", "temperature", "includeContext", "stopSequences", "modelPreferences", "tools", "toolChoice"].filter((name) => params[name] !== undefined);
    return [
      facts.length > 0 ? h("dl", { class: "facts-list" }, facts.map((name) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof params[name] === "string" ? short(params[name], 2000) : typeof params[name] === "object" ? json.view(JSON.stringify(params[name]), { label: name, folded: 1 }) : String(params[name]))))) : null,
      messages(json.at(node, "messages")),
      ways("How to answer", [
        ["Text", () => {
          raw = false;
          return h("div", { class: "stack" }, text, h("div", { class: "small-fields" }, h("label", {}, h("span", {}, "Model"), model), h("label", {}, h("span", {}, "Stop reason"), reason)));
        }],
        ["JSON", () => {
          raw = true;
          whole.value ||= JSON.stringify(JSON.parse(composed()), null, 2);
          return whole;
        }],
      ]),
      this.buttons([["Answer", answer, true], ["Refuse", () => this.answer('{"error":{"code":-1,"message":"User rejected sampling request"}}')]]),
    ];
  }

  roots() {
    const field = new Form(ROOTS, { label: "Roots" });
    this.form = field;
    return [field.element, this.buttons([["Answer", () => this.answer(`{"result":${field.get()}}`), true], ["Refuse", () => this.answer('{"error":{"code":-32603,"message":"No roots"}}')]])];
  }

  other() {
    const whole = h("textarea", { class: "code", rows: "6", "aria-label": "Result as JSON", spellcheck: "false", value: "{}" });
    return [json.view(JSON.stringify(this.question.params ?? {}), { label: "What is asked" }), whole,
      this.buttons([["Answer", () => (json.parse(whole.value) === null ? this.show("This is not JSON.") : this.answer(`{"result":${whole.value}}`)), true], ["Refuse", () => this.answer('{"error":{"code":-32603,"message":"Refused"}}')]])];
  }

  show(text) {
    replace(this.problem, text);
    this.problem.hidden = false;
  }
}

const ROOTS = {
  type: "object", required: ["roots"],
  properties: { roots: { type: "array", items: { type: "object", required: ["uri"], properties: { uri: { type: "string", format: "uri", description: "file:///…" }, name: { type: "string" } } } } },
};

/** The roots that the server is told when it asks, set beforehand. */
export function roots_editor() {
  const form = new Form(ROOTS, { label: "Roots" });
  const said = h("p", { class: "hint", role: "status" });
  const set = async () => {
    try {
      await api.post("/api/roots", form.get());
      replace(said, "Set. The server was notified that they changed.");
    } catch (error) {
      replace(said, error.message);
    }
  };
  return h("div", { class: "stack" }, form.element, h("div", { class: "buttons" }, h("button", { type: "button", on: { click: set } }, "Set roots"), said));
}

/** All questions, the open ones first, and the answers that are kept. */
export function questions_view() {
  const list = h("div", { class: "cards" });
  const kept = h("div", {});
  const draw = () => {
    const all = [...store.state.questions.values()];
    const order = [...all.filter((each) => each.state === "open"), ...all.filter((each) => each.state !== "open").reverse().slice(0, 50)];
    if (order.length === 0) replace(list, h("p", { class: "empty" }, "No questions yet. A question of the server appears here and in the call that waits for it."));
    else order.forEach((each, index) => {
      const element = card(each);
      if (list.children[index] !== element) list.insertBefore(element, list.children[index] ?? null);
    });
    while (list.children.length > Math.max(order.length, order.length === 0 ? 1 : 0)) list.lastChild.remove();
  };
  const saved = async () => {
    const found = await api.get("/api/answers").catch(() => null);
    const entries = Object.entries(found ?? {}).map(([method, answer]) => ({ method, answer }));
    replace(kept, h("h3", {}, "Saved answers"), entries.length === 0 ? h("p", { class: "hint" }, "None: you are asked each question.") : [
      h("ul", {}, entries.map(({ method, answer }) => h("li", {}, h("b", {}, short(method, 80)), json.view(JSON.stringify(answer), { label: `Saved answer to ${method}`, folded: 1 })))),
      h("button", { type: "button", on: { click: () => api.remove("/api/answers").then(saved, (error) => say(error.message)) } }, "Forget them"),
    ]);
  };
  draw();
  saved();
  return { title: "Questions", element: h("div", { class: "view" }, h("h2", {}, "Questions"), list, kept, h("h3", {}, "Answers in advance"), roots_editor()), ends: [store.on("question", () => {
    draw();
    saved();
  })] };
}
