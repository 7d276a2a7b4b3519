// Fields of a form for values without parts: each gives its value as JSON text, or nothing while nobody touched it.

import { append, h, replace, short } from "./dom.js";
import * as json from "./json.js";
import { kind_of, options_of, resolved } from "./schema.js";

let ids = 0;

/** What all fields share: a text of JSON or undefined for absent, a path, and a place for problems. */
export class Field {
  constructor(schema, context, path, { required = true, name = null } = {}) {
    Object.assign(this, { schema, context, path, required, name });
    this.id = `field${ids++}`;
    this.problems = h("ul", { class: "problems", id: `${this.id}-problems`, hidden: true });
    context.fields.push(this);
  }

  changed() {
    this.context.changed();
  }

  show(problems) {
    const own = problems.filter((each) => each.key === this.key());
    own.forEach((each) => (each.taken = true));
    replace(this.problems, own.slice(0, 5).map((each) => h("li", {}, short(each.text, 400))));
    this.problems.hidden = own.length === 0;
    if (this.input) this.input.setAttribute("aria-invalid", String(own.length > 0));
  }

  key() {
    return this.path().join("\u0000");
  }

  about() {
    const { title, description } = this.schema;
    return [title && title !== this.name ? String(title) : null, typeof description === "string" ? description : null];
  }
}

export class Text extends Field {
  constructor(...all) {
    super(...all);
    const { schema } = this;
    this.numeric = schema.type === "number" || schema.type === "integer";
    this.touched = false;
    const type = { date: "date", password: "password" }[schema.format] ?? (schema.writeOnly === true ? "password" : null);
    const shared = { id: this.id, "aria-describedby": `${this.id}-hint ${this.id}-problems`, "aria-required": String(this.required), autocomplete: "off", spellcheck: "false" };
    if (typeof schema.default === "string" || typeof schema.default === "number") shared.placeholder = short(String(schema.default), 80);
    if (this.numeric) this.input = h("input", { ...shared, type: "text", inputmode: schema.type === "integer" ? "numeric" : "decimal" });
    else if (type || this.context.oneline) this.input = h("input", { ...shared, type: type ?? "text" });
    else this.input = h("textarea", { ...shared, rows: "1" });
    this.clear = h("button", { type: "button", class: "clear", hidden: true, "aria-label": `Leave ${this.name ?? "it"} out`, title: "Leave it out", on: { click: () => {
      this.set(undefined);
      this.changed();
      this.input.focus();
    } } }, "×");
    this.input.addEventListener("input", () => {
      this.touched = !this.numeric || this.input.value !== "";
      this.clear.hidden = this.required || !this.touched;
      this.changed();
    });
    this.element = h("span", { class: "with-clear" }, this.input, this.clear);
  }

  complete(values) {
    const name = `${this.id}-list`;
    if (!this.options) {
      this.options = h("datalist", { id: name });
      this.input.setAttribute("list", name);
      append(this.element, this.options);
    }
    replace(this.options, values.slice(0, 100).map((value) => h("option", { value })));
  }

  get() {
    if (!this.touched) return undefined;
    if (!this.numeric) return JSON.stringify(this.input.value);
    const typed = this.input.value.trim();
    return json.parse(typed)?.kind === "number" ? typed : JSON.stringify(this.input.value);
  }

  set(node) {
    this.touched = node !== undefined;
    this.input.value = node === undefined ? "" : node.kind === "string" ? json.string(node) : json.compact(node);
    this.clear.hidden = this.required || !this.touched;
  }
}

export class Choice extends Field {
  constructor(...all) {
    super(...all);
    this.options = kind_of(this.schema) === "boolean" ? [{ text: "true", words: "true" }, { text: "false", words: "false" }] : options_of(this.schema);
    if (this.options.length <= 3 && this.options.every(({ words }) => words.length <= 16)) {
      const all_of = [...(this.required ? [] : [{ text: "", words: "left out" }]), ...this.options];
      this.element = h("span", { class: "segments", role: "radiogroup", "aria-labelledby": `${this.id}-label`, "aria-describedby": `${this.id}-hint ${this.id}-problems` },
        all_of.map(({ text, words }) => h("label", {}, h("input", { type: "radio", name: this.id, value: text, on: { change: () => this.changed() } }), h("span", {}, words))));
      this.radios = [...this.element.querySelectorAll("input")];
      if (!this.required) this.radios[0].checked = true;
    } else {
      this.input = h("select", { id: this.id, "aria-describedby": `${this.id}-hint ${this.id}-problems`, on: { change: () => this.changed() } },
        h("option", { value: "" }, this.required ? "Choose…" : "left out"), this.options.map(({ text, words }) => h("option", { value: text }, short(words, 120))));
      this.element = this.input;
    }
  }

  get() {
    const found = this.radios ? this.radios.find((radio) => radio.checked)?.value : this.input.value;
    return found || undefined;
  }

  set(node) {
    const text = node === undefined ? "" : json.compact(node);
    if (this.radios) for (const radio of this.radios) radio.checked = radio.value === text;
    else this.input.value = text;
  }
}

export class Fixed extends Field {
  constructor(...all) {
    super(...all);
    this.text = JSON.stringify(this.schema.const ?? null);
    this.element = h("code", { class: "fixed" }, this.text);
  }

  get() {
    return this.required ? this.text : undefined;
  }

  set() {}
}

export class Raw extends Field {
  constructor(...all) {
    super(...all);
    this.input = h("textarea", { id: this.id, class: "code", rows: "3", spellcheck: "false", autocomplete: "off", placeholder: "JSON", "aria-describedby": `${this.id}-hint ${this.id}-problems`, on: { input: () => this.changed() } });
    this.element = this.input;
  }

  get() {
    const typed = this.input.value.trim();
    if (typed === "") return undefined;
    const node = json.parse(typed);
    return node === null ? JSON.stringify(this.input.value) : json.compact(node);
  }

  set(node) {
    this.input.value = node === undefined ? "" : json.pretty(json.compact(node));
  }
}

export class Several extends Field {
  constructor(...all) {
    super(...all);
    const items = resolved(this.schema.items, this.context.root);
    this.boxes = options_of(items).map(({ text, words }) => [text, h("input", { type: "checkbox", on: { change: () => {
      this.touched = true;
      this.changed();
    } } }), words]);
    this.touched = false;
    this.element = h("span", { class: "checks", role: "group", "aria-labelledby": `${this.id}-label` }, this.boxes.map(([, box, words]) => h("label", {}, box, " ", words)));
  }

  get() {
    const chosen = this.boxes.filter(([, box]) => box.checked).map(([text]) => text);
    return chosen.length > 0 || this.touched || this.required ? `[${chosen.join(",")}]` : undefined;
  }

  set(node) {
    this.touched = node !== undefined;
    const texts = new Set((node?.items ?? []).map(json.compact));
    for (const [text, box] of this.boxes) box.checked = texts.has(text);
  }
}
