// JSON as it is on the wire: `JSON.parse` would change `1.0`, integers above 2^53, repeated names and the order of numeric
// names. The tokenizer keeps the text of each value and its place, so that findings can be marked where they are.
// Nothing here recurses: a text may be nested ten thousand deep.

import { append, bytes, h, replace } from "./dom.js";

const TOKEN = /[ \t\n\r]*(?:([{}[\],:])|(")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null))/y;
const END = /[ \t\n\r]*$/y;

/**
 * The value in a text as a tree: `{kind, raw}` for what has no members, `{kind: "object", members: [[name, node]]}` and
 * `{kind: "array", items: [node]}`. Null where the text is not JSON.
 */
export function parse(text) {
  if (text.length > 32_000_000) return null;
  const stack = [];
  let root = null;
  let name = null;
  let expect = "value"; // value, first (value or end), member (name or end), name, colon, after
  TOKEN.lastIndex = 0;
  while (root === null || stack.length > 0) {
    const found = TOKEN.exec(text);
    if (found === null) return null;
    const [, sign, quote, number, word] = found;
    const string = quote && quoted(text, TOKEN.lastIndex - 1);
    if (string === null) return null;
    if (string !== undefined) TOKEN.lastIndex += string.length - 1;
    const parent = stack[stack.length - 1];
    if (expect === "colon") {
      if (sign !== ":") return null;
      expect = "value";
      continue;
    }
    if (expect === "member" || expect === "name") {
      if (string !== undefined) {
        name = JSON.parse(string);
        expect = "colon";
        continue;
      }
      if (sign !== "}" || expect === "name") return null;
    } else if (expect === "after" && sign === ",") {
      expect = parent.kind === "object" ? "name" : "value";
      continue;
    }
    if (sign === "}" || sign === "]") {
      if (expect === "value" || parent === undefined || (parent.kind === "object") !== (sign === "}")) return null;
      stack.pop();
      expect = "after";
      continue;
    }
    if (expect === "after" || sign === "," || sign === ":") return null;
    const node =
      sign === "{" ? { kind: "object", members: [] }
      : sign === "[" ? { kind: "array", items: [] }
      : string !== undefined ? { kind: "string", raw: string }
      : number !== undefined ? { kind: "number", raw: number }
      : { kind: word === "null" ? "null" : "boolean", raw: word };
    if (parent === undefined) root = node;
    else if (parent.kind === "object") parent.members.push([name, node]);
    else parent.items.push(node);
    if (sign === "{" || sign === "[") {
      stack.push(node);
      expect = sign === "{" ? "member" : "first";
    } else expect = "after";
  }
  END.lastIndex = TOKEN.lastIndex;
  return END.test(text) ? root : null;
}

/** The string that begins at a quotation mark, as it is written; null where it is none. */
function quoted(text, from) {
  for (let end = text.indexOf('"', from + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let back = end;
    while (text[back - 1] === "\\") back--;
    if ((end - back) % 2 === 1) continue;
    const raw = text.slice(from, end + 1);
    try {
      JSON.parse(raw);
      return raw;
    } catch {
      return null;
    }
  }
  return null;
}

/** The text of a node without spaces, every value as it was written. */
export function compact(node) {
  const out = [];
  const work = [node];
  while (work.length > 0) {
    const next = work.pop();
    if (typeof next === "string") out.push(next);
    else if (next.kind === "object") {
      out.push("{");
      work.push("}");
      for (let at = next.members.length - 1; at >= 0; at--) {
        const [name, value] = next.members[at];
        work.push(value, `${at > 0 ? "," : ""}${JSON.stringify(name)}:`);
      }
    } else if (next.kind === "array") {
      out.push("[");
      work.push("]");
      for (let at = next.items.length - 1; at >= 0; at--) {
        work.push(next.items[at]);
        if (at > 0) work.push(",");
      }
    } else out.push(next.raw);
  }
  return out.join("");
}

/** The value of a member, or undefined; the last one of its name, as all parsers read it. */
export function member(node, name) {
  if (node?.kind !== "object") return undefined;
  for (let at = node.members.length - 1; at >= 0; at--) if (node.members[at][0] === name) return node.members[at][1];
  return undefined;
}

/** The node at names and indexes, or undefined. */
export function at(node, ...parts) {
  for (const part of parts) node = typeof part === "number" ? node?.items?.[part] : member(node, part);
  return node;
}

/** The text of a string node, or undefined. */
export function string(node) {
  return node?.kind === "string" ? JSON.parse(node.raw) : undefined;
}

// -- lines -------------------------------------------------------------------------------------------------------------

const IDENTIFIER = /^[\p{L}_][\p{L}\p{N}_]*$/u;

/** Lay a value out in lines: `{depth, name, open, close, raw, parent, part, end, comma, count}`. */
export function lines(root, most = Infinity) {
  const out = [];
  const work = [[root, null, -1, 0, false, undefined]];
  while (work.length > 0 && out.length < most) {
    const [node, name, parent, depth, comma, part] = work.pop();
    if (node === null) {
      const first = out[parent];
      out.push({ depth, close: first.open === "{" ? "}" : "]", parent: first.parent, comma, opened: parent });
      first.end = out.length - 1;
      continue;
    }
    const line = { depth, name, parent, part, comma };
    out.push(line);
    if (node.kind !== "object" && node.kind !== "array") {
      line.kind = node.kind;
      line.raw = node.raw;
      continue;
    }
    const children = node.kind === "object" ? node.members : node.items;
    line.kind = node.kind;
    line.open = node.kind === "object" ? "{" : "[";
    line.count = children.length;
    if (children.length === 0) {
      line.raw = node.kind === "object" ? "{}" : "[]";
      line.open = undefined;
      continue;
    }
    const here = out.length - 1;
    work.push([null, null, here, depth, comma, undefined]);
    line.comma = false;
    for (let index = children.length - 1; index >= 0; index--) {
      const last = index === children.length - 1;
      if (node.kind === "object") work.push([children[index][1], children[index][0], here, depth + 1, !last, children[index][0]]);
      else work.push([children[index], null, here, depth + 1, !last, index]);
    }
  }
  return out;
}

/** Text of JSON laid out in lines, every value as it is written. */
export function pretty(text) {
  const root = parse(text);
  if (root === null) return text;
  return lines(root).map((line) => {
    const name = line.name === null || line.name === undefined ? "" : `${JSON.stringify(line.name)}: `;
    return `${"  ".repeat(Math.min(line.depth, 40))}${name}${line.close ?? line.open ?? line.raw}${line.comma ? "," : ""}`;
  }).join("\n");
}

/** The names and indexes that lead to a line, from the root. */
function parts(all, index) {
  const found = [];
  for (let line = all[index]; line !== undefined && line.part !== undefined; line = all[line.parent]) found.push(line.part);
  return found.reverse();
}

/** A path as the runtime writes it: `$.content[0].text`, `$['odd name']`. */
export function path_text(found) {
  return `$${found
    .map((part) => (typeof part === "number" ? `[${part}]` : IDENTIFIER.test(part) ? `.${part}` : `['${part.replace(/[\\']/g, "\\$&")}']`))
    .join("")}`;
}

/** The names and indexes of a path. */
export function path_parts(text) {
  const found = [];
  const pattern = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy;
  pattern.lastIndex = text.startsWith("$") ? 1 : 0;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    if (match[2] !== undefined) found.push(Number(match[2]));
    else found.push(match[1] ?? (match[3] ?? match[4]).replace(/\\(.)/g, "$1"));
  }
  return found;
}

const key_of = (found) => found.join("\u0000");

/** The leaves of a value by their path, for what differs between two. */
function leaves(all) {
  const found = new Map();
  all.forEach((line, index) => {
    if (line.close === undefined && line.depth <= 64) found.set(key_of(parts(all, index)), line.open ?? line.raw);
  });
  return found;
}

/** What differs between two texts, as marks for the first and for the second. */
export function differences(first, second) {
  const [left, right] = [parse(first), parse(second)];
  if (left === null || right === null || first.length + second.length > 2_000_000) return [[], []];
  const [ours, theirs] = [leaves(lines(left)), leaves(lines(right))];
  const marks = [[], []];
  const covered = new Set();
  const add = (side, path, kind) => {
    const above = path.slice(0, Math.max(0, path.lastIndexOf("\u0000")));
    if (covered.has(`${side}${above}`)) covered.add(`${side}${path}`);
    else if (kind !== "changed") covered.add(`${side}${path}`);
    marks[side].push({ parts: path === "" ? [] : path.split("\u0000"), kind, key: path });
  };
  for (const [path, value] of ours) {
    if (!theirs.has(path)) add(0, path, "lost");
    else if (theirs.get(path) !== value) add(0, path, "changed");
  }
  for (const [path, value] of theirs) {
    if (!ours.has(path)) add(1, path, "added");
    else if (ours.get(path) !== value) add(1, path, "changed");
  }
  return marks;
}

// -- the view ----------------------------------------------------------------------------------------------------------

const FIRST = 1500;
const GLYPH = { lost: "−", added: "+", changed: "~", problem: "!" };
const WORD = { lost: "lost", added: "added", changed: "changed", problem: "problem" };
const LONGEST = 4000;
let ids = 0;

/**
 * A value as a tree of lines that fold. `marks` are `{path | key, kind, text}`; `label` names the tree for those who listen.
 * One tab stop: arrows move, left and right fold, Enter copies nothing and opens what is cut.
 */
export function view(text, { marks = [], label = "JSON", folded = 60, longest = LONGEST } = {}) {
  const root = parse(text);
  if (root === null) return h("div", { class: "json raw" }, cut(text));
  const all = lines(root, 200_000);
  const marked = new Map();
  if (marks.length > 0) {
    const wanted = new Map();
    for (const mark of marks) {
      const key = mark.key ?? key_of(path_parts(mark.path));
      if (!wanted.has(key)) wanted.set(key, []);
      wanted.get(key).push(mark);
    }
    all.forEach((line, index) => {
      if (line.close !== undefined || line.depth > 64) return;
      const found = wanted.get(key_of(parts(all, index)));
      if (found !== undefined) marked.set(index, found);
    });
  }
  const closed = new Set();
  all.forEach((line, index) => {
    if (line.depth >= folded && line.open !== undefined) closed.add(index);
  });
  const tree = h("div", { class: "json", role: "tree", tabindex: "0", "aria-label": label });
  const prefix = `json${ids++}-`;
  let shown = FIRST;
  let active = 0;

  const visible_lines = () => {
    const found = [];
    for (let index = 0; index < all.length; index++) {
      found.push(index);
      if (closed.has(index)) index = all[index].end ?? all.length;
    }
    return found;
  };
  const draw = () => {
    const found = visible_lines();
    const rows = found.slice(0, shown).map((index) => row(all, index, closed.has(index), marked.get(index), prefix, longest));
    const blocks = [];
    for (let start = 0; start < rows.length; start += 200) blocks.push(h("div", { class: "block", role: "none" }, rows.slice(start, start + 200)));
    replace(tree, blocks);
    if (found.length > shown) {
      append(tree, h("button", { type: "button", class: "more", tabindex: "-1", on: { click: more } }, `Show ${Math.min(found.length - shown, 5000)} more lines of ${found.length}`));
    }
    point(active);
  };
  const more = () => {
    shown += 5000;
    draw();
  };
  const point = (index) => {
    tree.querySelector(".active")?.classList.remove("active");
    const element = document.getElementById(prefix + index) ?? tree.querySelector(`#${prefix}${index}`);
    active = index;
    if (element) {
      element.classList.add("active");
      tree.setAttribute("aria-activedescendant", prefix + index);
    }
    return element;
  };
  const fold = (index, shut) => {
    if (all[index].open === undefined) return;
    if (shut) closed.add(index);
    else closed.delete(index);
    active = index;
    draw();
  };
  tree.addEventListener("click", (event) => {
    const element = event.target.closest?.("[role=treeitem]");
    if (!element || !tree.contains(element)) return;
    const index = Number(element.id.slice(prefix.length));
    if (event.target.closest(".fold, .count")) fold(index, !closed.has(index));
    else point(index);
  });
  tree.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const found = visible_lines();
    const place = found.indexOf(active);
    const line = all[active];
    const moves = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: Math.min(found.length, shown) - 1, PageDown: place + 20, PageUp: place - 20 };
    if (event.key in moves) {
      if (moves[event.key] >= shown && found.length > shown) more();
      point(found[Math.max(0, Math.min(found.length - 1, moves[event.key]))])?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "ArrowRight") {
      if (closed.has(active)) fold(active, false);
      else if (line.open !== undefined) point(active + 1);
    } else if (event.key === "ArrowLeft") {
      if (line.open !== undefined && !closed.has(active)) fold(active, true);
      else if (line.parent >= 0) point(line.parent)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" || event.key === " ") {
      if (line.open !== undefined) fold(active, !closed.has(active));
      else document.getElementById(prefix + active)?.querySelector("button")?.click();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  draw();
  return tree;
}

function row(all, index, shut, marks, prefix, longest) {
  const line = all[index];
  const mark = marks?.[0];
  const element = h("div", {
    id: prefix + index, role: "treeitem", class: `line${mark ? ` ${mark.kind}` : ""}`,
    "aria-level": Math.min(line.depth, 1000) + 1, "aria-expanded": line.open === undefined ? null : String(!shut),
  });
  element.style.setProperty("--depth", String(Math.min(line.depth, 40)));
  if (mark) append(element, h("span", { class: "gutter", "aria-hidden": "true" }, GLYPH[mark.kind]));
  if (line.open !== undefined) append(element, h("span", { class: `fold${shut ? " shut" : ""}`, "aria-hidden": "true" }));
  if (line.name !== null && line.name !== undefined) append(element, h("span", { class: "name" }, cut(JSON.stringify(line.name), 400)), ": ");
  if (line.close !== undefined) append(element, line.close);
  else if (line.open === undefined) append(element, h("span", { class: line.kind }, cut(line.raw, longest)));
  else if (shut) {
    const what = line.open === "{" ? (line.count === 1 ? "member" : "members") : line.count === 1 ? "item" : "items";
    append(element, line.open, h("span", { class: "count" }, `… ${line.count} ${what}`), line.open === "{" ? "}" : "]");
  } else append(element, line.open);
  if (shut ? all[line.end]?.comma : line.comma) append(element, ",");
  if (marks) append(element, marks.map((each) => h("span", { class: "note" }, `${WORD[each.kind]}${each.text ? `: ${each.text}` : ""}`)));
  return element;
}

/** A value on its line, cut where it is long, with a button for the rest. */
function cut(raw, most = LONGEST) {
  if (raw.length <= most) return raw;
  const rest = h("button", { type: "button", class: "more", tabindex: "-1" }, `… ${bytes(raw.length)}: show ${raw.length > 200_000 ? "200 kB" : "all"}`);
  const box = h("span", {}, raw.slice(0, most), rest);
  rest.addEventListener("click", (event) => {
    event.stopPropagation();
    const to = Math.min(raw.length, most + 200_000);
    replace(box, cut(raw, to));
  });
  return box;
}
