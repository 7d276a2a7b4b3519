// A list of any length: only the rows in view are in the document. One tab stop; arrows, Home, End and Page keys move.

import { h, replace } from "./dom.js";

const SPARE = 8;
let ids = 0;

export class List {
  /**
   * `count()` says how many rows there are, `row(index)` makes one (an element with role="row"), `open(index)` is called when a
   * row is chosen, `empty()` is what stands in the place of no rows.
   */
  constructor({ label, height = 24, columns, count, row, open, empty }) {
    Object.assign(this, { height, count, row, open, columns, empty });
    this.prefix = `list${ids++}-`;
    this.active = -1;
    this.following = true;
    this.spacer = h("div", { class: "spacer", role: "rowgroup" });
    this.element = h("div", { class: "list", role: "grid", tabindex: "0", "aria-label": label, "aria-colcount": columns, "aria-rowcount": 0 }, this.spacer);
    this.nothing = h("p", { class: "empty" });
    this.box = h("div", { class: "list-box" }, this.element, this.nothing);
    this.element.addEventListener("scroll", () => {
      this.following = this.element.scrollTop + this.element.clientHeight >= this.element.scrollHeight - this.height;
      this.soon();
    }, { passive: true });
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    this.element.addEventListener("click", (event) => {
      const found = event.target.closest?.("[role=row]");
      if (found) this.move(Number(found.dataset.index), { chosen: true });
    });
    new ResizeObserver(() => this.soon()).observe(this.element);
  }

  /** Draw with the next frame. */
  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const total = this.count();
    const tall = `${total * this.height}px`;
    if (this.spacer.style.height !== tall) this.spacer.style.height = tall;
    this.element.setAttribute("aria-rowcount", String(total));
    this.nothing.hidden = total > 0;
    if (total === 0) replace(this.nothing, this.empty());
    if (this.following) this.element.scrollTop = total * this.height;
    const from = Math.max(0, Math.floor(this.element.scrollTop / this.height) - SPARE);
    const to = Math.min(total, Math.ceil((this.element.scrollTop + this.element.clientHeight) / this.height) + SPARE);
    const rows = [];
    for (let index = from; index < to; index++) {
      const element = this.row(index);
      element.id = this.prefix + index;
      element.dataset.index = String(index);
      element.setAttribute("aria-rowindex", String(index + 1));
      if (index === this.active) element.classList.add("active");
      element.setAttribute("aria-selected", String(index === this.active));
      element.style.transform = `translateY(${index * this.height}px)`;
      rows.push(element);
    }
    replace(this.spacer, rows);
    if (this.active >= from && this.active < to) this.element.setAttribute("aria-activedescendant", this.prefix + this.active);
    else this.element.removeAttribute("aria-activedescendant");
    this.drawn?.(from, to);
  }

  /** Make a row the active one, bring it into view, and open it if it was chosen. */
  move(index, { chosen = false, quiet = false } = {}) {
    const total = this.count();
    if (total === 0) return;
    this.active = Math.max(0, Math.min(total - 1, index));
    this.spacer.style.height = `${total * this.height}px`; // so that a row that has just come can be scrolled to
    const top = this.active * this.height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.height > scrollTop + clientHeight) this.element.scrollTop = top + this.height - clientHeight;
    this.following = this.active === total - 1;
    this.draw();
    if (!quiet) this.open(this.active, chosen);
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) this.move(this.active < 0 && Number.isFinite(moves[event.key]) ? this.count() - 1 : this.active + moves[event.key]);
    else if (event.key === "Enter" && this.active >= 0) this.open(this.active, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
