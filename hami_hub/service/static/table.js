// A table of any length, of which a page is shown: sorted, searched and paged here, or by whoever gives the rows.

import { h, put } from "./dom.js";
import { count } from "./words.js";

const PAGE = 50;

/**
 * @param columns [{key, title, of: (row) => text or element, sort: (row) => value, number: true}]
 * @param noun ["server", "servers"]
 * @param empty what is said when there is nothing
 */
export class Table {
  constructor({ caption, columns, noun, empty, sort = null, page = PAGE }) {
    this.columns = columns;
    this.noun = noun;
    this.empty = empty;
    this.page = page;
    this.from = 0;
    this.rows = [];
    this.sorted = sort; // [key, descending]
    this.body = h("tbody");
    this.heads = columns.map((column) => this.#head(column));
    this.said = h("span", { class: "quiet", role: "status" });
    this.back = h("button", { type: "button", class: "button", onclick: () => this.turn(-1) }, "Previous");
    this.next = h("button", { type: "button", class: "button", onclick: () => this.turn(1) }, "Next");
    const table = h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, ...this.heads)),
      this.body,
    );
    this.element = h(
      "div",
      {},
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table),
      h("div", { class: "pager" }, this.said, this.back, this.next),
    );
  }

  /** Show other rows, on the same page of the table as far as there is one. */
  show(rows) {
    this.rows = rows;
    this.draw();
  }

  /** The page after this one, or before. */
  turn(by) {
    this.from += by * this.page;
    this.draw();
  }

  /** Begin at the first row again: what is looked for has changed. */
  restart() {
    this.from = 0;
  }

  draw() {
    const rows = this.#inOrder();
    this.from = Math.max(0, Math.min(this.from, Math.floor((rows.length - 1) / this.page) * this.page));
    const shown = rows.slice(this.from, this.from + this.page);
    const wide = { colspan: this.columns.length, class: "quiet" };
    this.body.replaceChildren(
      ...(shown.length ? shown.map((row) => this.#line(row)) : [h("tr", {}, h("td", wide, this.empty))]),
    );
    const last = this.from + shown.length;
    const all = count(rows.length, ...this.noun);
    put(this.said, rows.length > this.page ? `${this.from + 1} to ${last} of ${all}` : rows.length ? all : "");
    this.back.hidden = this.next.hidden = rows.length <= this.page;
    this.back.disabled = this.from === 0;
    this.next.disabled = last >= rows.length;
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
    this.heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", this.sorted[1] ? "descending" : "ascending");
    this.restart();
    this.draw();
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
