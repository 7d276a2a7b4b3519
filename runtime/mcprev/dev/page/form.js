// A form from a JSON Schema. Its value is JSON text, so that numbers stay as they are typed and what nobody touched stays absent.

import { append, h, replace, short, table } from "./dom.js";
import { Choice, Field, Fixed, Raw, Several, Text } from "./fields.js";
import * as json from "./json.js";
import { markdown } from "./markdown.js";
import { choice_name, choices_of, fits, hints, kind_of, list, resolved, suits, without_null } from "./schema.js";

const DEEPEST = 12;
const MOST = 200;

// -- fields that hold others ------------------------------------------------------------------------------------------

class Items extends Field {
  constructor(...all) {
    super(...all);
    this.items = [];
    this.touched = false;
    this.rows = h("ol", { class: "items" });
    this.add = h("button", { type: "button", class: "add", on: { click: () => {
      this.insert().focus();
      this.touched = true;
      this.changed();
    } } }, `Add item${this.name ? ` to ${this.name}` : ""}`);
    this.element = h("div", { class: "nested", role: "group", "aria-labelledby": `${this.id}-label` }, this.rows, this.add);
  }

  insert(node) {
    const item = { row: null, field: null };
    const path = () => [...this.path(), this.items.indexOf(item)];
    const prefixed = list(this.schema.prefixItems)[this.items.length];
    this.items.push(item);
    item.part = made(prefixed ?? this.schema.items ?? {}, this.context, path, { required: true, name: null, label: () => `${this.name ?? "item"} ${this.items.indexOf(item) + 1}` });
    item.field = item.part.field;
    item.row = h("li", {}, item.part.element, h("button", { type: "button", class: "clear", "aria-label": "Remove this item", title: "Remove this item", on: { click: () => {
      this.items.splice(this.items.indexOf(item), 1);
      item.row.remove();
      this.touched = true;
      this.changed();
      this.add.focus();
    } } }, "×"));
    append(this.rows, item.row);
    if (node !== undefined) item.field.set(node);
    return { focus: () => item.row.querySelector("input, textarea, select, button")?.focus() };
  }

  get() {
    if (this.items.length === 0 && !this.touched && !this.required) return undefined;
    return `[${this.items.map(({ field }) => field.get() ?? "null").join(",")}]`;
  }

  set(node) {
    this.items = [];
    replace(this.rows);
    this.touched = node !== undefined;
    for (const each of (node?.items ?? []).slice(0, MOST)) this.insert(each);
  }
}

class Members extends Field {
  constructor(schema, context, path, options) {
    super(schema, context, path, options);
    this.wanted = new Set(list(schema.required));
    this.parts = [];
    this.others = new Map();
    this.touched = false;
    this.body = h("div", { class: "members" });
    const names = Object.entries(schema.properties ?? {});
    for (const [name, each] of names.slice(0, MOST)) {
      const part = made(each, context, () => [...this.path(), name], { required: this.wanted.has(name), name });
      this.parts.push([name, part.field]);
      append(this.body, part.element);
    }
    if (names.length > MOST) append(this.body, h("p", { class: "hint" }, `${names.length - MOST} more members: use JSON.`));
    this.rest = h("div", { class: "members others" });
    const open = schema.additionalProperties;
    const pairs = schema.properties === undefined ? open !== false : open === true || (open && typeof open === "object");
    this.element = h("div", { class: options?.top ? "form-top" : "nested", role: "group", "aria-labelledby": `${this.id}-label` }, this.body, this.rest,
      pairs ? this.adding(open && typeof open === "object" ? open : {}) : null);
    this.other_schema = open && typeof open === "object" ? open : {};
  }

  adding(schema) {
    const name = h("input", { type: "text", placeholder: "name", "aria-label": `Name of a member to add${this.name ? ` to ${this.name}` : ""}`, autocomplete: "off", spellcheck: "false" });
    const add = () => {
      if (!name.value || this.others.has(name.value) || this.parts.some(([each]) => each === name.value)) return name.focus();
      this.other(name.value, schema);
      name.value = "";
      this.touched = true;
      this.changed();
    };
    name.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      add();
    });
    return h("div", { class: "adding" }, name, h("button", { type: "button", class: "add", on: { click: add } }, "Add member"));
  }

  other(name, schema, node) {
    const part = made(schema, this.context, () => [...this.path(), name], { required: true, name });
    const remove = h("button", { type: "button", class: "clear", "aria-label": `Remove ${name}`, on: { click: () => {
      this.others.delete(name);
      row.remove();
      this.changed();
    } } }, "×");
    const row = h("div", { class: "other" }, part.element, remove);
    this.others.set(name, part.field);
    append(this.rest, row);
    if (node !== undefined) part.field.set(node);
  }

  get() {
    const found = [];
    for (const [name, field] of [...this.parts, ...this.others]) {
      const text = field.get();
      if (text !== undefined) found.push(`${JSON.stringify(name)}:${text}`);
    }
    return found.length === 0 && !this.required && !this.touched ? undefined : `{${found.join(",")}}`;
  }

  set(node) {
    this.touched = node !== undefined;
    this.others.clear();
    replace(this.rest);
    const known = new Map(this.parts);
    for (const [name, field] of known) field.set(json.member(node, name));
    for (const [name, value] of node?.members ?? []) if (!known.has(name) && !this.others.has(name)) this.other(name, this.other_schema, value);
  }
}

class Union extends Field {
  constructor(...all) {
    super(...all);
    this.choices = choices_of(this.schema).slice(0, 100);
    this.select = h("select", { id: this.id, "aria-describedby": `${this.id}-hint ${this.id}-problems` }, h("option", { value: "" }, this.required ? "Choose…" : "left out"),
      this.choices.map((each, index) => h("option", { value: String(index) }, short(choice_name(each, this.context.root), 80))));
    this.select.addEventListener("change", () => {
      this.choose(this.select.value);
      this.changed();
    });
    this.input = this.select;
    this.body = h("div", { class: "chosen" });
    this.element = h("div", { class: "union" }, this.select, this.body);
    const only = this.choices.filter((each) => resolved(each, this.context.root).type !== "null");
    if (only.length === 1 && !["object", "array"].includes(kind_of(resolved(only[0], this.context.root)))) this.preset = String(this.choices.indexOf(only[0]));
    if (this.preset !== undefined && this.required) this.choose((this.select.value = this.preset));
  }

  choose(value) {
    this.part = null;
    replace(this.body);
    if (value === "") return;
    const { anyOf, oneOf, type, ...shared } = this.schema;
    const choice = this.choices[Number(value)];
    const whole = resolved(choice, this.context.root);
    const { description, title, default: _, ...rest } = shared;
    this.part = made({ ...rest, ...whole }, this.context, this.path, { required: true, name: null, bare: true, label: () => `${this.name ?? "value"} as ${choice_name(choice, this.context.root)}` });
    append(this.body, this.part.element);
  }

  get() {
    return this.part?.field.get();
  }

  set(node) {
    if (node === undefined) {
      this.select.value = "";
      return this.choose("");
    }
    const value = String(Math.max(0, this.choices.findIndex((each) => fits(node, resolved(each, this.context.root), this.context.root))));
    this.select.value = value;
    this.choose(value);
    this.part?.field.set(node);
  }
}

const KINDS = table({ string: Text, number: Text, integer: Text, boolean: Choice, enum: Choice, const: Fixed, set: Several, array: Items, object: Members, union: Union, any: Raw });

/** The field of a schema with its label, description, and a switch to JSON where it is composed. */
function made(schema, context, path, { required, name, label, bare = false }) {
  const depth = path().length;
  const whole = schema === false ? { const: null } : without_null(resolved(schema, context.root), context.root, required);
  let kind = kind_of(whole);
  if (kind === "null") kind = "const";
  if (kind === "const" && !required) kind = "enum"; // it may be left out
  if (depth > DEEPEST) kind = "any";
  const value = whole.const ?? null;
  const fixed = kind === "const" ? { ...whole, const: value } : kind === "enum" && ("const" in whole || whole.type === "null") ? { ...whole, enum: [value], oneOf: undefined, anyOf: undefined } : whole;
  const composed = ["object", "array", "union"].includes(kind);
  const holder = { field: null };
  const place = h("div", { class: "place" });
  const build = (as, kept = true) => {
    const node = kept && holder.field && json.parse(holder.field.get() ?? "");
    holder.as = as;
    if (holder.field) context.fields.splice(context.fields.indexOf(holder.field), 1);
    holder.field = new (KINDS[as] ?? Raw)(fixed, context, path, { required, name });
    if (node) holder.field.set(node);
    replace(place, holder.field.element);
  };
  const facade = {
    get: () => holder.field?.get(),
    set: (node) => {
      if (node !== undefined) {
        const as = toggle.getAttribute("aria-pressed") === "true" || !suits(kind, fixed, node) ? "any" : kind;
        if (!holder.field || holder.as !== as) {
          build(as, false);
          decorate();
        }
      }
      holder.field?.set(node);
    },
    complete: (values) => holder.field?.complete?.(values),
    input: () => holder.field?.input,
  };
  const head = h("div", { class: "field-head" });
  const tail = h("div", {});
  const element = h("div", { class: `field f-${kind}${bare ? " bare" : ""}` }, head, place, tail);
  const title = () => name ?? label?.() ?? "";
  const decorate = () => {
    const { field } = holder;
    const words = [title(), required && name !== null ? h("span", { class: "required", title: "required" }, " *", h("span", { class: "unseen" }, " required")) : null];
    const labelled = field?.input && !field.radios
      ? h("label", { for: field.id, id: `${field.id}-label`, class: bare || (name === null && label) ? "unseen" : null }, words)
      : h("span", { id: field ? `${field.id}-label` : null, class: `label-text${bare || (name === null && label) ? " unseen" : ""}` }, words);
    const [title_text, description] = field?.about() ?? [whole.title, whole.description];
    const hint = hints(whole);
    replace(head, labelled, hint ? h("span", { class: "hint", id: field ? `${field.id}-hint` : null }, hint) : field ? h("span", { id: `${field.id}-hint` }) : null, composed && field && depth <= DEEPEST ? toggle : null, !required && composed && field ? leave : null);
    replace(tail, title_text || description ? h("div", { class: "description" }, title_text && !description ? title_text : description && /[*`[#]/.test(description) ? markdown(description.slice(0, 5000)) : short(description ?? "", 1000)) : null, field?.problems);
  };
  const toggle = h("button", { type: "button", class: "as-json", "aria-pressed": "false", "aria-label": `${title()} as JSON` }, "{ }");
  toggle.addEventListener("click", () => {
    const raw = toggle.getAttribute("aria-pressed") !== "true";
    const node = json.parse(holder.field.get() ?? "");
    if (!raw && node && !suits(kind, fixed, node)) return;
    toggle.setAttribute("aria-pressed", String(raw));
    build(raw ? "any" : kind);
    decorate();
    context.changed();
  });
  const leave = h("button", { type: "button", class: "clear", "aria-label": `Leave ${title()} out`, title: "Leave it out" }, "×");
  leave.addEventListener("click", () => {
    context.fields.splice(context.fields.indexOf(holder.field), 1);
    holder.field = null;
    toggle.setAttribute("aria-pressed", "false");
    closed();
    context.changed();
    place.querySelector("button")?.focus();
  });
  const open = () => {
    build(kind);
    if (holder.field.touched !== undefined) holder.field.touched = true;
    decorate();
  };
  const closed = () => {
    replace(place, h("button", { type: "button", class: "add", on: { click: () => {
      open();
      context.changed();
      place.querySelector("input, textarea, select")?.focus();
    } } }, `Add ${title()}`));
    decorate();
  };
  // An optional object or list is made when it is asked for: so it stays absent, and schemas that contain themselves end.
  if (!required && ["object", "array"].includes(kind)) closed();
  else if (required && ["object", "union"].includes(kind) && depth > 5) closed();
  else {
    build(kind);
    decorate();
    if (whole.default !== undefined && (required || context.prefill)) holder.field.set(json.parse(JSON.stringify(whole.default)) ?? undefined);
  }
  return { element, field: facade };
}

// -- the form ----------------------------------------------------------------------------------------------------------

export class Form {
  /** A form for a schema; `changed` is called when its value may have; `prefill` puts defaults of optional members in. */
  constructor(schema, { changed = () => {}, prefill = false, oneline = false, label = "Arguments" } = {}) {
    this.context = { root: schema, fields: [], prefill, oneline, changed: () => {
      this.clear();
      changed();
    } };
    this.label = label;
    this.top = new Members(resolved(schema ?? {}, schema), this.context, () => [], { required: true, top: true });
    this.code = h("textarea", { class: "code", rows: "10", spellcheck: "false", autocomplete: "off", "aria-label": `${label} as JSON`, on: { input: () => {
      this.clear();
      changed();
    } } });
    this.extra = h("ul", { class: "problems", role: "alert", hidden: true });
    this.switches = ["Form", "JSON"].map((words) => h("button", { type: "button", "aria-pressed": String(words === "Form"), on: { click: () => this.turn(words === "JSON") } }, words));
    this.raw = false;
    this.place = h("div", {});
    this.element = h("div", { class: "form" },
      h("div", { class: "form-head" }, h("h3", { id: `${this.top.id}-label` }, label), h("span", { class: "segments" }, this.switches)), this.place, this.extra);
    if (this.top.parts.length === 0 && !this.top.element.querySelector(".adding")) append(this.top.element, h("p", { class: "hint" }, "It takes no arguments."));
    this.draw();
  }

  draw() {
    replace(this.place, this.raw ? this.code : this.top.element);
  }

  turn(raw) {
    if (raw === this.raw) return;
    if (raw) this.code.value = json.pretty(this.top.get());
    else {
      const node = json.parse(this.code.value);
      if (node?.kind !== "object") return this.show([{ path: "$", text: "This is not a JSON object, so the form cannot show it." }]);
      this.top.set(node);
    }
    this.raw = raw;
    this.switches.forEach((button, index) => button.setAttribute("aria-pressed", String((index === 1) === raw)));
    this.draw();
  }

  /** The value as JSON text; null where the JSON that was typed is none. */
  get() {
    if (!this.raw) return this.top.get();
    const node = json.parse(this.code.value.trim() || "{}");
    return node === null ? null : json.compact(node);
  }

  set(text) {
    const node = json.parse(text);
    if (node?.kind !== "object") return;
    this.top.set(node);
    if (this.raw) this.code.value = json.pretty(text);
  }

  clear() {
    this.show([]);
  }

  /** Show problems at their fields, and those without a field below. */
  show(problems) {
    const found = problems.slice(0, 200).map(({ path, text }) => ({ path, text, key: json.path_parts(path ?? "$").join("\u0000"), taken: false }));
    if (!this.raw) for (const field of this.context.fields) if (field !== this.top && field.element.isConnected) field.show(found);
    const rest = found.filter((each) => !each.taken);
    replace(this.extra, rest.map(({ path, text }) => h("li", {}, path && path !== "$" ? [h("code", {}, short(path, 200)), " "] : null, short(text, 600))));
    this.extra.hidden = rest.length === 0;
  }

  /** The field of a member of the top, for completion. */
  field(name) {
    return this.top.parts.find(([each]) => each === name)?.[1];
  }

  focus() {
    this.place.querySelector("input, textarea, select")?.focus();
  }
}
