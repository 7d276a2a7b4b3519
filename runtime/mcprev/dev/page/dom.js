// Makes nodes, and nothing else: no text ever becomes markup, an address or a style. The page has a Content-Security-Policy
// under which `innerHTML` throws; here is all that it uses instead.

const SVG = "http://www.w3.org/2000/svg";
const FORBIDDEN = new Set(["style", "href", "src", "srcdoc", "innerHTML", "outerHTML"]);

/** A table of words whose keys may come from a server: `__proto__` is not in it. */
export const table = (entries) => Object.assign(Object.create(null), entries);

/** An element with properties and children; `on` holds listeners, `class` the class, other names are attributes. */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "value" && "value" in element) element.value = value;
    else if (FORBIDDEN.has(name) || name.startsWith("on")) throw new Error(`${name} is not set here`);
    else element.setAttribute(name, value === true ? "" : plain(String(value)));
  }
  append(element, children);
  return element;
}

/** Append children: nodes, texts, lists of them; nothing for null and false. */
export function append(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : visible(String(child)));
  }
  return element;
}

/** Put children in the place of what an element holds. */
export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, ...children);
}

// -- characters that are not seen --------------------------------------------------------------------------------------

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e0fff}]/gu;

function spelled(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A text for an attribute or an option: characters that hide or turn text around are spelled. */
export function plain(text) {
  return text.replace(HIDDEN, spelled);
}

/** A node with a text, in which control characters and those that turn text around are drawn as what they are. */
export function visible(text) {
  HIDDEN.lastIndex = 0;
  if (!HIDDEN.test(text)) return document.createTextNode(text);
  HIDDEN.lastIndex = 0; // where `matchAll` begins
  const fragment = document.createDocumentFragment();
  let last = 0;
  let drawn = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (drawn++ > 2000) break;
    if (found.index > last) fragment.append(text.slice(last, found.index));
    const mark = document.createElement("span");
    mark.className = "hidden-character";
    mark.textContent = spelled(found[0]);
    fragment.append(mark);
    last = found.index + found[0].length;
  }
  if (last < text.length) fragment.append(plain(text.slice(last)));
  return fragment;
}

// -- long texts --------------------------------------------------------------------------------------------------------

/** A text as it is; of another value, which a peer may have sent in its place, its JSON. */
const text_of = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");

export const LONG = 200_000;
const BLOCK = 50_000;

/** "12 B", "3.4 kB", "10 MB". */
export function bytes(count) {
  if (count < 1000) return `${count} B`;
  if (count < 1_000_000) return `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)} kB`;
  return `${(count / 1_000_000).toFixed(count < 10_000_000 ? 1 : 0)} MB`;
}

/** Pieces of a text as blocks, of which the browser lays out those in view; cut between lines where there are any. */
function pieces(text, from, to) {
  const made = [];
  for (let at = from; at < to; ) {
    const end = Math.min(to, at + BLOCK);
    const line = end < to ? text.lastIndexOf("\n", end) + 1 : end;
    const cut = line > at ? line : end;
    made.push(h("div", { class: "block" }, text.slice(at, cut)));
    at = cut;
  }
  return made;
}

/** A text as it is, cut where it is very long; a button shows the rest in steps that keep the page moving. */
export function long(value, properties) {
  const text = text_of(value);
  const box = h("div", { class: "text", ...properties });
  if (text.length <= LONG) return append(box, text);
  append(box, pieces(text, 0, LONG));
  const button = h("button", { type: "button", class: "more" }, `Show all (${bytes(text.length)})`);
  let shown = LONG;
  const step = () => {
    const to = Math.min(text.length, shown + LONG);
    for (const piece of pieces(text, shown, to)) box.insertBefore(piece, button);
    shown = to;
    if (shown < text.length && box.isConnected) requestAnimationFrame(step);
    else if (shown >= text.length) button.remove();
  };
  button.addEventListener("click", () => {
    button.disabled = true;
    step();
  });
  append(box, button);
  return box;
}

/** At most so many characters of a text, on one line. */
export function short(value, most = 120) {
  const text = text_of(value);
  const line = text.length > most ? `${text.slice(0, most - 1)}…` : text;
  return line.replace(/\s+/g, " ");
}

// -- addresses ---------------------------------------------------------------------------------------------------------

/** The address as a browser reads it if it is of the web, else null. */
export function web(address) {
  if (typeof address !== "string" || address.length > 8192) return null;
  try {
    const url = new URL(address);
    return (url.protocol === "http:" || url.protocol === "https:") && !url.username && !url.password ? url : null;
  } catch {
    return null;
  }
}

/** A link that shows where it goes before it is followed; text alone where it does not go into the web. */
export function link(address, text) {
  const url = web(address);
  const words = text ?? short(String(address), 200);
  if (url === null) {
    return text === undefined || text === address
      ? h("code", { class: "address" }, words)
      : h("span", {}, text, " ", h("code", { class: "address" }, short(String(address), 200)));
  }
  const anchor = h("a", { target: "_blank", rel: "noopener noreferrer", referrerpolicy: "no-referrer" }, short(url.href, 2000));
  anchor.setAttribute("href", url.href);
  return h("details", { class: "link" }, h("summary", {}, words, h("span", { class: "host" }, ` ${url.host} ↗`)), h("span", { class: "card" }, "Goes to ", anchor));
}

// -- files -------------------------------------------------------------------------------------------------------------

/** Bytes of Base64 text, or null where it is none or too long. */
export function decoded(base64, most = 30_000_000) {
  if (typeof base64 !== "string" || base64.length > most) return null;
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

/** An element with a blob as its source, whose address is given back when `signal` of the view ends. */
export function sourced(tag, properties, content, type) {
  const element = h(tag, properties);
  const address = URL.createObjectURL(new Blob([content], { type }));
  element.src = address;
  lent.push([new WeakRef(element), address]);
  return element;
}

const lent = [];

/** Give back the addresses of blobs whose elements have left the page. */
export function give_back() {
  for (let at = lent.length - 1; at >= 0; at--) {
    if (lent[at][0].deref()?.isConnected) continue;
    URL.revokeObjectURL(lent[at][1]);
    lent.splice(at, 1);
  }
}

/** Offer a text or bytes as a file. */
export function download(name, content, type = "application/octet-stream") {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([content], { type }));
  anchor.download = name.replace(/[^\w.-]+/g, "_").slice(-80) || "file";
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

// -- words for those who listen ----------------------------------------------------------------------------------------

/** Say a sentence through the live region of the page. */
export function say(sentence) {
  const region = document.getElementById("said");
  if (region) replace(region, short(sentence, 300));
}

/** Milliseconds from seconds, as short as they can be read: "0.4 ms", "12 ms", "3.21 s". */
export function milliseconds(seconds) {
  const value = seconds * 1000;
  if (!Number.isFinite(value)) return "";
  if (value < 10) return `${value.toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(2)} s`;
  return `${Math.floor(value / 60_000)} min ${Math.round((value % 60_000) / 1000)} s`;
}
