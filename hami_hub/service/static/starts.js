// What became of every start: who was refused what, and why.

import { byId, h, paused, put } from "./dom.js";
import { payer } from "./live.js";
import { Paged } from "./paged.js";
import { cores, gib, lasting, moment, who } from "./words.js";

const SAD = new Set(["refused", "failed"]);
const DAY = 86400;
let opened = false;

const table = new Paged({
  caption: "Starts of servers, the newest first",
  heads: [["When"], ["Server"], ["Paid by"], ["Asked for"], ["What became of it"], ["Why"]],
  path: "api/starts",
  query: () => ({
    state: byId("starts-state").value,
    reason: byId("starts-reason").value,
    q: byId("starts-search").value.trim(),
    from: Math.floor(Date.now() / 60000) * 60 - Number(byId("starts-days").value) * DAY,
  }),
  noun: ["start", "starts"],
  empty: "Nothing like that happened in that time.",
  before: reasons,
  line: (row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: "once" }, moment(row.asked)),
      h("td", {}, who(row)),
      h("td", {}, row.cards ? payer(row.group) : "–"),
      h("td", {}, row.cards ? `${row.profile}: ${gib(row.vram)} · ${cores(row.cores)}` : `${row.profile}: no GPU`),
      h("td", {}, h("span", { class: `badge ${SAD.has(row.state) ? "bad" : ""}` }, row.state), lasted(row)),
      h("td", {}, row.words, row.reason ? h("div", { class: "quiet" }, row.reason) : null),
    ),
});

function lasted(row) {
  return row.started && row.ended ? ` after ${lasting(row.ended - row.started)}` : "";
}

/** The reasons there were; what is chosen stays. */
function reasons(said) {
  const select = byId("starts-reason");
  const chosen = select.value;
  const there = [...new Set([...said.reasons, ...(chosen ? [chosen] : [])])];
  const options = there.map((reason) => h("option", { value: reason }, reason));
  select.replaceChildren(h("option", { value: "" }, "any"), ...options);
  select.value = chosen;
  put(byId("starts-more"), said.more ? "There were more in that time than can be searched: look at fewer days." : "");
}

export function begin() {
  byId("starts-table").append(table.element);
  byId("starts-form").addEventListener("submit", (event) => event.preventDefault());
  byId("starts-form").addEventListener("input", paused(() => table.restart()));
}

export function open() {
  if (opened && table.from) return; // somebody reads further back
  opened = true;
  table.fill();
}
