// Markdown to nodes. `marked` (vendored whole, its licence beside it) makes tokens; here they become elements of a few kinds.
// HTML in a text is shown as its source, images are links, and no address is fetched.

import { h, link, long, table } from "./dom.js";
import { Lexer } from "./marked.js";

const MOST = 200_000;
const DEEPEST = 24;

/** Nodes for a text; its source where it is too long or too deep. */
export function markdown(text) {
  if (text.length > MOST) return long(text);
  try {
    const tokens = new Lexer({ gfm: true, breaks: false }).lex(text);
    return h("div", { class: "markdown" }, blocks(tokens, 0));
  } catch {
    return long(text); // nested so deep that the lexer gives up
  }
}

/** Whether a text looks as if it was meant as Markdown. */
export function looks_like_markdown(text) {
  return text.length <= MOST && /^(?:#{1,6} \S|```|[-*] \S|\d+\. \S|> \S|\|.+\|$)|\*\*\S[^*\n]*\*\*|`[^`\n]+`|\[[^\]\n]+\]\(\S+\)/m.test(text.slice(0, 20_000));
}

function blocks(tokens, depth) {
  return (tokens ?? []).map((token) => block(token, depth));
}

function block(token, depth) {
  if (depth > DEEPEST) return h("p", {}, token.raw);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return h("p", { class: `heading h${token.depth}`, role: "heading", "aria-level": Math.min(6, token.depth + 2) }, inlines(token.tokens, depth));
    case "paragraph":
      return h("p", {}, inlines(token.tokens, depth));
    case "text":
      return token.tokens ? h("span", {}, inlines(token.tokens, depth)) : h("span", {}, unescaped(token.text));
    case "code":
      return h("pre", { tabindex: "0" }, h("code", {}, token.text));
    case "blockquote":
      return h("blockquote", {}, blocks(token.tokens, depth + 1));
    case "list":
      return h(token.ordered ? "ol" : "ul", { start: token.ordered && Number.isSafeInteger(token.start) && token.start !== 1 ? token.start : null },
        token.items.map((item) => h("li", { class: item.task ? "task" : null }, item.task ? (item.checked ? "☑ " : "☐ ") : null, blocks(item.tokens.filter((each) => each.type !== "checkbox"), depth + 1))));
    case "hr":
      return h("hr", {});
    case "table":
      return grid(token, depth);
    default:
      return h("p", { class: "source" }, token.raw); // HTML, and what a later version may add
  }
}

function grid(token, depth) {
  const cells = (tag, row) => h("tr", {}, row.map((cell) => h(tag, { class: cell.align ? `to-${cell.align}` : null }, inlines(cell.tokens, depth))));
  return h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", {}, h("thead", {}, cells("th", token.header)), h("tbody", {}, token.rows.map((row) => cells("td", row)))));
}

function inlines(tokens, depth) {
  return (tokens ?? []).map((token) => inline(token, depth + 1));
}

function inline(token, depth) {
  if (depth > DEEPEST) return token.raw;
  switch (token.type) {
    case "text":
      return token.tokens ? inlines(token.tokens, depth) : unescaped(token.text);
    case "escape":
      return token.text;
    case "strong":
    case "em":
    case "del":
      return h(token.type, {}, inlines(token.tokens, depth));
    case "codespan":
      return h("code", {}, token.text);
    case "br":
      return h("br", {});
    case "link":
      return link(token.href, token.text || token.href);
    case "image":
      return link(token.href, `Image: ${token.text || token.href}`);
    default:
      return h("code", { class: "source" }, token.raw);
  }
}

const ENTITIES = table({ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", hellip: "…", mdash: "—", ndash: "–" });

/** The characters that entities of a text stand for. */
function unescaped(text) {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-z]+));/g, (whole, decimal, hexadecimal, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal !== undefined ? Number(decimal) : Number.parseInt(hexadecimal, 16);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : whole;
  });
}
