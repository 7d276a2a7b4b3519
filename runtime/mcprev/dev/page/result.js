// Results as what they are: text, Markdown, JSON, images, sound, resources, links, and structured content beside its schema.

import { bytes, decoded, download, h, link, long, replace, short, sourced } from "./dom.js";
import * as json from "./json.js";
import { looks_like_markdown, markdown } from "./markdown.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);
const SOUNDS = new Set(["audio/wav", "audio/x-wav", "audio/wave", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/webm", "audio/aac", "audio/flac", "audio/mp4"]);
const MOST = 200;

/** Something shown in several ways, one at a time. */
export function ways(label, list, first = 0) {
  const place = h("div", { class: "way" });
  const buttons = list.map(([words], index) => h("button", { type: "button", "aria-pressed": "false", on: { click: () => show(index) } }, words));
  const show = (index) => {
    buttons.forEach((button, each) => button.setAttribute("aria-pressed", String(each === index)));
    replace(place, list[index][1]());
  };
  show(first);
  return h("div", { class: "ways" }, list.length > 1 ? h("div", { class: "segments", role: "group", "aria-label": label }, buttons) : null, place);
}

/** A text: as it is, as Markdown where it looks like it, as JSON where it is. */
export function text_ways(text, type = "") {
  const node = /^\s*[[{]/.test(text) && text.length < 5_000_000 ? json.parse(text) : null;
  const list = [["Text", () => long(text, { class: "text" })]];
  if (node) list.push(["JSON", () => json.view(text, { label: "Text that is JSON" })]);
  const prose = type.startsWith("text/markdown") || (!node && type !== "text/html" && looks_like_markdown(text));
  if (prose) list.push(["Markdown", () => markdown(text)]);
  return ways("How to show the text", list, list.length - 1);
}

function blob(base64, type, name) {
  const content = decoded(base64);
  if (content === null) return h("p", { class: "error" }, `These ${bytes(String(base64 ?? "").length)} of Base64 cannot be read.`);
  const save = h("button", { type: "button", class: "quiet", on: { click: () => download(name, content) } }, "Save");
  const about = h("p", { class: "hint" }, `${short(type || "no MIME type", 80)}, ${bytes(content.length)} `, save);
  const plain = type.split(";")[0].trim().toLowerCase();
  if (IMAGES.has(plain)) {
    const image = sourced("img", { alt: `Image from the server, ${plain}`, decoding: "async" }, content, plain);
    image.addEventListener("error", () => replace(about, `This ${plain} cannot be shown, ${bytes(content.length)} `, save));
    return h("figure", {}, image, about);
  }
  if (SOUNDS.has(plain)) return h("figure", {}, sourced("audio", { controls: true, "aria-label": `Audio from the server, ${plain}` }, content, plain), about);
  if (plain === "image/svg+xml") return h("div", {}, h("p", { class: "hint" }, "SVG can hold scripts, so it is shown as its source."), long(new TextDecoder().decode(content)), about);
  return h("div", {}, about, h("pre", { class: "hex", tabindex: "0" }, hex(content)));
}

function hex(content) {
  const rows = [];
  for (let at = 0; at < Math.min(content.length, 512); at += 16) {
    const row = [...content.slice(at, at + 16)];
    rows.push(`${at.toString(16).padStart(6, "0")}  ${row.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(47)}  ${row.map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : ".")).join("")}`);
  }
  if (content.length > 512) rows.push(`… ${bytes(content.length)}`);
  return rows.join("\n");
}

const read = (node, name) => json.string(json.at(node, name));

/** The contents of a resource: text or a blob, with its address. */
export function contents(node) {
  const uri = read(node, "uri") ?? "";
  const type = read(node, "mimeType") ?? "";
  const text = read(node, "text");
  return h("div", { class: "resource" }, h("p", { class: "facts" }, h("code", { class: "address" }, short(uri, 300)), type ? h("span", { class: "muted" }, ` ${short(type, 80)}`) : null),
    text !== undefined ? text_ways(text, type) : blob(read(node, "blob"), type, uri.split("/").pop() || "resource"));
}

/** One block of content. */
export function content(node, open_resource) {
  const type = read(node, "type");
  const notes = annotations(json.at(node, "annotations"));
  const shown = () => {
    switch (type) {
      case "text":
        return text_ways(read(node, "text") ?? "");
      case "image":
      case "audio":
        return blob(read(node, "data"), read(node, "mimeType") ?? "", type);
      case "resource":
        return contents(json.at(node, "resource"));
      case "resource_link": {
        const uri = read(node, "uri") ?? "";
        return h("div", { class: "resource" }, h("p", {}, h("b", {}, short(read(node, "title") ?? read(node, "name") ?? "", 200)), " ", link(uri)),
          read(node, "description") ? h("p", { class: "muted" }, short(read(node, "description"), 1000)) : null,
          open_resource ? h("button", { type: "button", on: { click: () => open_resource(uri) } }, "Read it") : null);
      }
      default:
        return json.view(json.compact(node), { label: `Content of type ${short(type ?? "unknown", 40)}` });
    }
  };
  return h("div", { class: `content of-${["text", "image", "audio", "resource", "resource_link"].includes(type) ? type : "other"}` }, type === "text" && !notes ? null : h("p", { class: "content-type" }, short(type ?? "unknown", 40), notes), shown());
}

function annotations(node) {
  if (node?.kind !== "object") return null;
  return h("span", { class: "muted" }, ` ${short(node.members.map(([name, value]) => `${name} ${value.kind === "string" ? json.string(value) : json.compact(value)}`).join(", "), 200)}`);
}

function blocks(node, each) {
  const items = node?.kind === "array" ? node.items : node ? [node] : [];
  return [items.slice(0, MOST).map(each), items.length > MOST ? h("p", { class: "hint" }, `… and ${items.length - MOST} more: see Raw.`) : null];
}

function structured(node, schema, texts) {
  const text = json.compact(node);
  const same = texts.some((each) => {
    const found = json.parse(each);
    return found !== null && json.compact(found) === text;
  });
  const data = json.view(text, { label: "Structured content" });
  return [
    schema ? h("div", { class: "pair" }, h("section", { "aria-label": "Structured content" }, h("h4", {}, "Data"), data), h("section", { "aria-label": "Output schema" }, h("h4", {}, "Its schema"), json.view(JSON.stringify(schema), { label: "Output schema" }))) : data,
    same ? h("p", { class: "hint" }, "The text of the result is the same JSON.") : null,
  ];
}

function result_views(method, node, { schema, open_resource }) {
  const views = [];
  if (method === "tools/call") {
    const data = json.at(node, "structuredContent");
    const list = json.at(node, "content");
    const texts = (list?.items ?? []).map((each) => read(each, "text")).filter((each) => each !== undefined && each.length < 1_000_000);
    if (list?.items?.length || !data) views.push(["Result", () => (list?.items?.length ? blocks(list, (each) => content(each, open_resource)) : h("p", { class: "empty" }, "No content."))]);
    if (data) views.push(["Data", () => structured(data, schema, texts)]);
  } else if (method === "resources/read") views.push(["Contents", () => blocks(json.at(node, "contents"), contents)]);
  else if (method === "prompts/get") {
    views.push(["Messages", () => [
      read(node, "description") ? h("p", { class: "muted" }, short(read(node, "description"), 1000)) : null,
      messages(json.at(node, "messages"), open_resource),
    ]]);
  }
  return views;
}

/** Messages of a prompt or of sampling, each with who says it. */
export function messages(node, open_resource) {
  return h("ol", { class: "messages" }, blocks(node, (each) => {
    const role = read(each, "role") ?? "?";
    return h("li", { class: role === "assistant" ? "assistant" : "user" }, h("p", { class: "role" }, short(role, 40)), blocks(json.at(each, "content"), (block) => content(block, open_resource)));
  }));
}

/** A result in all its views; `text` is the JSON of the result as it was on the wire. */
export function result(method, text, more = {}) {
  const node = json.parse(text ?? "");
  if (node === null) return text ? long(text) : h("p", { class: "empty" }, "The result is empty.");
  const failed = json.at(node, "isError")?.raw === "true";
  const raw = ["Raw", () => json.view(text, { label: "The result as it went over the wire" })];
  return h("div", { class: failed ? "result failed" : "result" }, failed ? h("p", { class: "bad" }, "✕ The tool says that it failed.") : null,
    ways("Views of the result", [...result_views(method, node, more), raw]));
}

/** An error of a call. */
export function failure(error) {
  return h("div", { class: "result failed" },
    h("p", { class: "bad" }, "✕ ", error.code !== undefined && error.code !== null ? h("b", {}, `${error.code} `) : null, short(error.message ?? "It failed.", 2000)),
    error.data !== undefined && error.data !== null ? json.view(JSON.stringify(error.data), { label: "Data of the error" }) : null);
}

