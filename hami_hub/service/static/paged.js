// A table whose rows the service searches and pages: for what may have many thousands.

import { ask } from "./ask.js";
import { h, put } from "./dom.js";
import { count } from "./words.js";

const PAGE = 50;

/** @param draw (said) => rows, of an answer with `rows` and `total` */
export class Paged {
  constructor({ caption, heads, path, query, line, noun, empty, before = () => {} }) {
    Object.assign(this, { path, query, line, noun, empty, before });
    this.offset = 0;
    this.asked = 0;
    this.columns = heads.length;
    this.body = h("tbody");
    this.said = h("span", { class: "quiet", role: "status" });
    this.back = h("button", { type: "button", class: "button", onclick: () => this.turn(-1) }, "Previous");
    this.next = h("button", { type: "button", class: "button", onclick: () => this.turn(1) }, "Next");
    const head = h("tr", {}, ...heads.map(([title, number]) => h("th", { scope: "col", class: number && "number" }, title)));
    const table = h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, head), this.body);
    this.element = h(
      "div",
      {},
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table),
      h("div", { class: "pager" }, this.said, this.back, this.next),
    );
  }

  turn(by) {
    this.offset = Math.max(0, this.offset + by * PAGE);
    return this.load();
  }

  /** Ask for what is looked for now, from the first row. */
  restart() {
    this.offset = 0;
    return this.load();
  }

  async load() {
    const asked = ++this.asked;
    try {
      const said = await ask(this.path, { query: { ...this.query(), offset: this.offset, limit: PAGE } });
      if (asked === this.asked) this.draw(said);
    } catch (error) {
      if (asked !== this.asked) return;
      this.body.replaceChildren(h("tr", {}, h("td", { colspan: this.columns, class: "fault" }, error.message)));
      put(this.said, "");
      this.back.hidden = this.next.hidden = true;
    }
  }

  draw(said) {
    this.before(said);
    const last = this.offset + said.rows.length;
    const none = h("tr", {}, h("td", { colspan: this.columns, class: "quiet" }, this.empty));
    this.body.replaceChildren(...(said.rows.length ? said.rows.map((row) => this.line(row, said)) : [none]));
    const all = count(said.total, ...this.noun);
    put(this.said, said.total > PAGE ? `${this.offset + 1} to ${last} of ${all}` : said.total ? all : "");
    this.back.hidden = this.next.hidden = said.total <= PAGE;
    this.back.disabled = this.offset === 0;
    this.next.disabled = last >= said.total;
  }
}
