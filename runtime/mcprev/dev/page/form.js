// A form from a JSON Schema. Its value is JSON text, so that numbers stay as they are typed and what nobody touched stays absent.

import { append, h, replace, short, table } from "./dom.js";
import * as json from "./json.js";
import { markdown } from "./markdown.js";

const DEEPEST = 12;
const MOST = 200;
let ids = 0;

// -- schemas -----------------------------------------------------------------------------------------------------------

/** What `$ref` points to within a document, or undefined. */
function pointed(root, reference) {
  if (typeof reference !== "string" || !reference.startsWith("#")) return undefined;
  let found = root;
  for (const part of reference.slice(1).split("/").slice(1)) {
    let name = part;
    try {
      name = decodeURIComponent(part);
    } catch { /* a name with a percent sign */ }
    name = name.replaceAll("~1", "/").replaceAll("~0", "~");
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return found;
}

/** A schema with its references followed and `allOf` taken in. */
export function resolved(schema, root, steps = 0) {
  if (schema === true || schema === null || typeof schema !== "object") return {};
  if (steps > 30) return {};
  let found = schema;
  if (found.$ref !== undefined) {
    const { $ref, ...rest } = found;
    const target = pointed(root, $ref);
    found = target === undefined ? rest : { ...resolved(target, root, steps + 1), ...rest };
  }
  if (Array.isArray(found.allOf)) {
    const { allOf, ...rest } = found;
    found = [...allOf.slice(0, 50), rest].map((each) => resolved(each, root, steps + 1)).reduce(both, {});
  }
  return found;
}

function both(first, second) {
  const merged = { ...first, ...second };
  if (first.properties || second.properties) merged.properties = { ...first.properties, ...second.properties };
  if (first.required || second.required) merged.required = [...new Set([...list(first.required), ...list(second.required)])];
  return merged;
}

const list = (value) => (Array.isArray(value) ? value : []);

/** An optional member that is null by default is left out instead, so it needs no choice between null and the other. */
function without_null(schema, root, required) {
  if (required || schema.default !== null || !("default" in schema)) return schema;
  const { default: _, ...rest } = schema;
  if (Array.isArray(rest.type) && rest.type.length === 2 && rest.type.includes("null")) return { ...rest, type: rest.type.find((each) => each !== "null") };
  const others = list(rest.anyOf).map((each) => resolved(each, root)).filter((each) => each.type !== "null");
  if (list(rest.anyOf).length !== 2 || others.length !== 1) return schema;
  const { anyOf, ...shared } = rest;
  return { ...others[0], ...shared };
}

/** Whether a field of a kind can show a value as it is; JSON shows all others. */
function suits(kind, schema, node) {
  const kinds = { string: "string", number: "number", integer: "number", boolean: "boolean", object: "object", array: "array", set: "array" };
  if (kind in kinds && node.kind !== kinds[kind]) return false;
  if (kind === "const") return json.compact(node) === JSON.stringify(schema.const ?? null);
  const texts = kind === "enum" ? options_of(schema) : kind === "set" ? options_of(schema.items) : null;
  return texts === null || (kind === "set" ? node.items : [node]).every((each) => texts.some(({ text }) => text === json.compact(each)));
}

/** The kind of field that a schema wants. */
function kind_of(schema) {
  if ("const" in schema) return "const";
  const choices = list(schema.oneOf).length ? schema.oneOf : list(schema.anyOf);
  if (choices.length > 0 && choices.every((each) => each && typeof each === "object" && "const" in each)) return "enum";
  if (Array.isArray(schema.enum)) return "enum";
  if (choices.length > 0) return "union";
  if (Array.isArray(schema.type)) return schema.type.length === 1 ? kind_of({ ...schema, type: schema.type[0] }) : "union";
  if (schema.type === "object" || (schema.type === undefined && schema.properties)) return "object";
  if (schema.type === "array") {
    const items = schema.items && typeof schema.items === "object" ? schema.items : {};
    return Array.isArray(items.enum) || (list(items.anyOf ?? items.oneOf).length && list(items.anyOf ?? items.oneOf).every((each) => each && "const" in each)) ? "set" : "array";
  }
  return ["string", "number", "integer", "boolean", "null"].includes(schema.type) ? schema.type : "any";
}

function choices_of(schema) {
  if (Array.isArray(schema.type) && !schema.anyOf && !schema.oneOf) return schema.type.map((type) => ({ ...schema, type }));
  return list(schema.oneOf).length ? schema.oneOf : list(schema.anyOf);
}

function options_of(schema) {
  const titled = list(schema.oneOf).length ? schema.oneOf : list(schema.anyOf);
  if (titled.length > 0) return titled.slice(0, 1000).map((each) => ({ text: JSON.stringify(each.const), words: String(each.title ?? name_of(each.const)) }));
  return list(schema.enum).slice(0, 1000).map((value, index) => ({ text: JSON.stringify(value), words: String(schema.enumNames?.[index] ?? name_of(value)) }));
}

const name_of = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** What to call one choice of a union. */
function choice_name(schema, root) {
  const whole = resolved(schema, root);
  if (whole.title) return String(whole.title);
  for (const [name, each] of Object.entries(whole.properties ?? {})) if (each && typeof each === "object" && "const" in each) return `${name}: ${name_of(each.const)}`;
  if (typeof schema?.$ref === "string") return schema.$ref.split("/").pop();
  if ("const" in whole) return name_of(whole.const);
  return Array.isArray(whole.type) ? whole.type.join(" or ") : whole.type ?? "any JSON";
}

// -- fields ------------------------------------------------------------------------------------------------------------

/** What all fields share: a text of JSON or undefined for absent, a path, and a place for problems. */
class Field {
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

function hints(schema) {
  const found = [];
  const kind = kind_of(schema);
  if (!["enum", "set", "boolean", "const", "any", "union"].includes(kind)) found.push(schema.format ? `${kind}, ${schema.format}` : kind);
  if (schema.minimum !== undefined) found.push(`≥ ${schema.minimum}`);
  if (schema.maximum !== undefined) found.push(`≤ ${schema.maximum}`);
  if (schema.minLength !== undefined || schema.maxLength !== undefined) found.push(`${schema.minLength ?? 0}–${schema.maxLength ?? "∞"} characters`);
  if (schema.minItems !== undefined || schema.maxItems !== undefined) found.push(`${schema.minItems ?? 0}–${schema.maxItems ?? "∞"} items`);
  if (schema.pattern !== undefined) found.push(`matches ${short(String(schema.pattern), 60)}`);
  if (schema.default !== undefined) found.push(`default ${short(JSON.stringify(schema.default), 60)}`);
  return found.join(" · ");
}

class Text extends Field {
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
    if (!this.touched && !(this.required && !this.numeric)) return undefined;
    if (!this.numeric) return this.touched || this.required ? (this.touched ? JSON.stringify(this.input.value) : undefined) : undefined;
    const typed = this.input.value.trim();
    return json.parse(typed)?.kind === "number" ? typed : JSON.stringify(this.input.value);
  }

  set(node) {
    this.touched = node !== undefined;
    this.input.value = node === undefined ? "" : node.kind === "string" ? json.string(node) : json.compact(node);
    this.clear.hidden = this.required || !this.touched;
  }
}

class Choice extends Field {
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

class Fixed extends Field {
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

class Raw extends Field {
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
    this.input.value = node === undefined ? "" : pretty(json.compact(node));
  }
}

class Several extends Field {
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
    return this.part?.field.get() ?? (this.part && this.required ? undefined : undefined);
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

/** Whether a value looks like one of a schema: its kind, and the constants of its members. */
function fits(node, schema, root) {
  const kinds = Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : null;
  if ("const" in schema) return json.compact(node) === JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.some((each) => JSON.stringify(each) === json.compact(node));
  if (kinds && !kinds.some((kind) => (kind === "integer" ? node.kind === "number" && Number.isInteger(Number(node.raw)) : kind === node.kind))) return false;
  if (node.kind !== "object" || !schema.properties) return true;
  if (list(schema.required).some((name) => json.member(node, name) === undefined)) return false;
  return Object.entries(schema.properties).every(([name, each]) => {
    const value = json.member(node, name);
    const wanted = resolved(each, root);
    return value === undefined || !("const" in wanted) || json.compact(value) === JSON.stringify(wanted.const);
  });
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

/** Text of JSON laid out in lines, every value as it is written. */
export function pretty(text) {
  const root = json.parse(text);
  if (root === null) return text;
  return json.lines(root).map((line) => {
    const name = line.name === null || line.name === undefined ? "" : `${JSON.stringify(line.name)}: `;
    return `${"  ".repeat(Math.min(line.depth, 40))}${name}${line.close ?? line.open ?? line.raw}${line.comma ? "," : ""}`;
  }).join("\n");
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
      h("div", { class: "form-head" }, h("h3", { id: `${this.top.id}-label` }, label), h("span", { class: "segments buttons" }, this.switches)), this.place, this.extra);
    if (this.top.parts.length === 0 && !this.top.element.querySelector(".adding")) append(this.top.element, h("p", { class: "hint" }, "It takes no arguments."));
    this.draw();
  }

  draw() {
    replace(this.place, this.raw ? this.code : this.top.element);
  }

  turn(raw) {
    if (raw === this.raw) return;
    if (raw) this.code.value = pretty(this.top.get());
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
    if (this.raw) this.code.value = pretty(text);
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
