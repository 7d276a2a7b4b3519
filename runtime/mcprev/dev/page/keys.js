// The keyboard: one table, from which the help is made too.

import { h } from "./dom.js";

const typing = (target) => target.closest?.("input, textarea, select, [contenteditable]");

/** Keys and what they do; `g` waits for a second key. */
export class Keys {
  constructor(table) {
    this.table = table;
    this.first = "";
    document.addEventListener("keydown", (event) => this.pressed(event));
    const close = h("button", { type: "button", class: "main", on: { click: () => this.help.close() } }, "Close");
    this.help = h("dialog", { class: "help", "aria-labelledby": "help-title" }, h("h2", { id: "help-title" }, "Keyboard shortcuts"),
      h("dl", {}, table.filter((each) => each.words).map(({ keys, words }) => h("div", {}, h("dt", {}, keys.map((key, index) => [index > 0 ? " " : null, h("kbd", {}, key)])), h("dd", {}, words)))), close);
  }

  pressed(event) {
    if (this.help.open) return;
    const inside = typing(event.target);
    const control = event.ctrlKey || event.metaKey;
    const name = control ? `Ctrl+${event.key}` : event.key;
    if (event.altKey || (inside && !control && event.key !== "Escape")) return;
    if (inside && event.key === "Escape") return event.target.blur();
    const all = this.first ? [this.first, name] : [name];
    this.first = "";
    const found = this.table.find(({ keys, either }) => (either ? keys.includes(name) && all.length === 1 : keys.join(" ") === all.join(" ")));
    if (found) {
      event.preventDefault();
      found.act(name);
    } else if (!control && this.table.some(({ keys, either }) => !either && keys.length > 1 && keys[0] === name)) {
      this.first = name;
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => (this.first = ""), 1500);
    }
  }

  show() {
    this.help.showModal();
  }
}
