// A table of rows that are all here: sorted and paged here, searched by whoever gives them.

import { h } from "./dom.js";
import { PAGE, Pages } from "./pages.js";

/** @param columns [{key, title, of: (row) => text or element, sort: (row) => value, number: true}] */
export class Table extends Pages {
  constructor({ columns, sort = null, ...frame }) {
    super(frame);
    this.columns = columns;
    this.rows = [];
    this.sorted = sort; // [key, descending]
    this.head.append(...columns.map((column) => this.#head(column)));
  }

  /** Show other rows, on the same page of the table as far as there is one. */
  show(rows) {
    this.rows = rows;
    this.fill();
  }

  /** Begin at the first row again: what is looked for has changed. */
  restart() {
    this.from = 0;
  }

  fill() {
    const rows = this.#inOrder();
    this.from = Math.max(0, Math.min(this.from, Math.floor((rows.length - 1) / PAGE) * PAGE));
    const shown = rows.slice(this.from, this.from + PAGE);
    this.showPage(
      shown.map((row) => this.#line(row)),
      rows.length,
    );
  }

  #head(column) {
    const scope = { scope: "col", class: column.number ? "number" : null };
    if (!column.sort) return h("th", scope, column.title);
    const head = h("th", scope, h("button", { type: "button", onclick: () => this.#sort(column, head) }, column.title));
    if (this.sorted?.[0] === column.key) head.setAttribute("aria-sort", this.sorted[1] ? "descending" : "ascending");
    return head;
  }

  #sort(column, head) {
    const again = this.sorted?.[0] === column.key;
    this.sorted = [column.key, again ? !this.sorted[1] : Boolean(column.number)];
    for (const each of this.head.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", this.sorted[1] ? "descending" : "ascending");
    this.restart();
    this.fill();
  }

  #inOrder() {
    if (!this.sorted) return this.rows;
    const [key, down] = this.sorted;
    const { sort } = this.columns.find((column) => column.key === key);
    const order = (a, b) => (typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0);
    return [...this.rows].sort((a, b) => (down ? -1 : 1) * order(sort(a), sort(b)));
  }

  #line(row) {
    return h(
      "tr",
      {},
      ...this.columns.map((column, place) =>
        h(place ? "td" : "th", { class: column.number ? "number" : null, scope: place ? null : "row" }, column.of(row)),
      ),
    );
  }
}
