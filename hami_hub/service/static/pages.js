// The frame of a table that may be long: a page of its lines, and the buttons to the others.

import { h, put } from "./dom.js";
import { count } from "./words.js";

export const PAGE = 50;

/**
 * Whoever extends it fills the `head`, and has `fill()`, which shows the page that begins at `from`.
 *
 * @param noun ["server", "servers"]
 * @param empty what is said when there is nothing
 */
export class Pages {
  constructor({ caption, noun, empty }) {
    Object.assign(this, { noun, empty, from: 0 });
    this.head = h("tr");
    this.body = h("tbody");
    this.said = h("span", { class: "quiet", role: "status" });
    this.back = h("button", { type: "button", class: "button", onclick: () => this.turn(-1) }, "Previous");
    this.next = h("button", { type: "button", class: "button", onclick: () => this.turn(1) }, "Next");
    const table = h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, this.head), this.body);
    this.element = h(
      "div",
      {},
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table),
      h("div", { class: "pager" }, this.said, this.back, this.next),
    );
  }

  /** The page after this one, or before. */
  turn(by) {
    this.from = Math.max(0, this.from + by * PAGE);
    return this.fill();
  }

  /** Show the lines of this page, of so many in all. */
  showPage(lines, total) {
    this.body.replaceChildren(...(lines.length ? lines : [this.note(this.empty, "quiet")]));
    const last = this.from + lines.length;
    const all = count(total, ...this.noun);
    put(this.said, total > PAGE ? `${this.from + 1} to ${last} of ${all}` : total ? all : "");
    this.back.hidden = this.next.hidden = total <= PAGE;
    this.back.disabled = this.from === 0;
    this.next.disabled = last >= total;
  }

  /** A line of words. */
  note(text, kind) {
    return h("tr", {}, h("td", { colspan: this.head.children.length, class: kind }, text));
  }
}
