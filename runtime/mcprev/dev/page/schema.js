// What a JSON Schema wants, as far as a form needs to know it: references followed, kinds, choices, and what suits them.

import { short } from "./dom.js";
import * as json from "./json.js";

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

/** A list, or an empty one for what is none. */
export const list = (value) => (Array.isArray(value) ? value : []);

/** An optional member that is null by default is left out instead, so it needs no choice between null and the other. */
export function without_null(schema, root, required) {
  if (required || schema.default !== null || !("default" in schema)) return schema;
  const { default: _, ...rest } = schema;
  if (Array.isArray(rest.type) && rest.type.length === 2 && rest.type.includes("null")) return { ...rest, type: rest.type.find((each) => each !== "null") };
  const others = list(rest.anyOf).map((each) => resolved(each, root)).filter((each) => each.type !== "null");
  if (list(rest.anyOf).length !== 2 || others.length !== 1) return schema;
  const { anyOf, ...shared } = rest;
  return { ...others[0], ...shared };
}

/** Whether a field of a kind can show a value as it is; JSON shows all others. */
export function suits(kind, schema, node) {
  const kinds = { string: "string", number: "number", integer: "number", boolean: "boolean", object: "object", array: "array", set: "array" };
  if (kind in kinds && node.kind !== kinds[kind]) return false;
  if (kind === "const") return json.compact(node) === JSON.stringify(schema.const ?? null);
  const texts = kind === "enum" ? options_of(schema) : kind === "set" ? options_of(schema.items) : null;
  return texts === null || (kind === "set" ? node.items : [node]).every((each) => texts.some(({ text }) => text === json.compact(each)));
}

/** The kind of field that a schema wants. */
export function kind_of(schema) {
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

export function choices_of(schema) {
  if (Array.isArray(schema.type) && !schema.anyOf && !schema.oneOf) return schema.type.map((type) => ({ ...schema, type }));
  return list(schema.oneOf).length ? schema.oneOf : list(schema.anyOf);
}

export function options_of(schema) {
  const titled = list(schema.oneOf).length ? schema.oneOf : list(schema.anyOf);
  if (titled.length > 0) return titled.slice(0, 1000).map((each) => ({ text: JSON.stringify(each.const), words: String(each.title ?? name_of(each.const)) }));
  return list(schema.enum).slice(0, 1000).map((value, index) => ({ text: JSON.stringify(value), words: String(schema.enumNames?.[index] ?? name_of(value)) }));
}

const name_of = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** What to call one choice of a union. */
export function choice_name(schema, root) {
  const whole = resolved(schema, root);
  if (whole.title) return String(whole.title);
  for (const [name, each] of Object.entries(whole.properties ?? {})) if (each && typeof each === "object" && "const" in each) return `${name}: ${name_of(each.const)}`;
  if (typeof schema?.$ref === "string") return schema.$ref.split("/").pop();
  if ("const" in whole) return name_of(whole.const);
  return Array.isArray(whole.type) ? whole.type.join(" or ") : whole.type ?? "any JSON";
}

/** What a field says of the bounds of its values. */
export function hints(schema) {
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

/** Whether a value looks like one of a schema: its kind, and the constants of its members. */
export function fits(node, schema, root) {
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
