// Who used how much: VRAM times hours, by user or group, as bars and as a file.

import { place } from "./ask.js";
import { byId, h, paused, put } from "./dom.js";
import { payer } from "./live.js";
import { Paged } from "./paged.js";
import { count, hours } from "./words.js";

const DAY = 86400;
let opened = false;

const by = () => document.querySelector('input[name="usage-by"]:checked').value;

/** From the beginning of the first day to the end of the last. */
function query() {
  const from = byId("usage-from").valueAsNumber / 1000;
  const to = byId("usage-to").valueAsNumber / 1000 + DAY;
  const asked = { by: by(), q: byId("usage-search").value.trim() };
  return Number.isFinite(from) && Number.isFinite(to) ? { ...asked, from, to } : asked;
}

const table = new Paged({
  caption: "GPU use",
  heads: [["Who"], ["GiB-hours", true], [h("span", { class: "unseen" }, "As a bar")], ["Card-hours", true], ["Server-hours", true], ["Starts", true], ["Refused", true]],
  path: "api/usage",
  query,
  noun: ["line", "lines"],
  empty: "Nobody used a GPU in that time.",
  before: (said) => put(byId("usage-sum"), `${hours(said.gib_hours)} GiB-hours in all.`),
  line: (row, said) => {
    const fill = h("span");
    fill.style.width = `${said.most ? (100 * row.gib_hours) / said.most : 0}%`;
    const number = (text) => h("td", { class: "number" }, text);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, by() === "group" ? payer(row.key) : row.key),
      number(hours(row.gib_hours)),
      h("td", { class: "bar-cell" }, h("span", { class: "meter-bar", "aria-hidden": "true" }, fill)),
      number(hours(row.card_hours)),
      number(hours(row.server_hours)),
      number(count(row.starts, "", "").trim()),
      number(count(row.refused, "", "").trim()),
    );
  },
});

export function begin() {
  byId("usage-table").append(table.element);
  const today = new Date().toISOString().slice(0, 10);
  byId("usage-to").value = today;
  byId("usage-from").value = new Date(Date.now() - 29 * DAY * 1000).toISOString().slice(0, 10);
  byId("usage-form").addEventListener("submit", (event) => event.preventDefault());
  byId("usage-form").addEventListener("input", paused(load));
}

export function open() {
  if (opened) return;
  opened = true;
  load();
}

function load() {
  byId("usage-csv").href = place("api/usage.csv", { ...query(), q: "" });
  return table.restart();
}
