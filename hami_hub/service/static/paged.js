// A table whose rows the service searches and pages: for what may have many thousands.

import { ask } from "./ask.js";
import { h, put } from "./dom.js";
import { PAGE, Pages } from "./pages.js";

/**
 * @param heads [[title, is a number]]
 * @param query () => what is looked for
 * @param line (row, said) => tr, of an answer with `rows` and `total`
 * @param before (said) => …, once for each answer
 */
export class Paged extends Pages {
  constructor({ heads, path, query, line, before = () => {}, ...frame }) {
    super(frame);
    Object.assign(this, { path, query, line, before, asked: 0 });
    this.head.append(...heads.map(([title, number]) => h("th", { scope: "col", class: number && "number" }, title)));
  }

  /** Ask for what is looked for now, from the first row. */
  restart() {
    this.from = 0;
    return this.fill();
  }

  async fill() {
    const asked = ++this.asked;
    try {
      const said = await ask(this.path, { query: { ...this.query(), offset: this.from, limit: PAGE } });
      if (asked === this.asked) this.draw(said);
    } catch (error) {
      if (asked !== this.asked) return;
      this.body.replaceChildren(this.note(error.message, "fault"));
      put(this.said, "");
      this.back.hidden = this.next.hidden = true;
    }
  }

  draw(said) {
    this.before(said);
    this.showPage(
      said.rows.map((row) => this.line(row, said)),
      said.total,
    );
  }
}
