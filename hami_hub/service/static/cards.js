// The cards as bars of their slices, and the same as a table.  The colour says who; the stripe at a slice's foot how
// much of it is in use.

import { byId, h, inPieces, newId, paused, put } from "./dom.js";
import { now, onChange, payer } from "./live.js";
import { Table } from "./table.js";
import { tip } from "./tip.js";
import { cores, count, gib, hue, moment, who } from "./words.js";

const rows = new Map(); // of the cards, by UUID: {element, bar, words, slices: Map of id to button}
let onCard = new Map(); // ids of the slices of each card, in order
let looked = "";

const table = new Table({
  caption: "Slices on the cards",
  noun: ["slice", "slices"],
  empty: "No slice is given out.",
  sort: ["card", false],
  columns: [
    { key: "user", title: "Server", of: (s) => who(s), sort: (s) => s.holder },
    { key: "group", title: "Paid by", of: (s) => payer(s.group), sort: (s) => s.group },
    { key: "profile", title: "Profile", of: (s) => s.profile || "–", sort: (s) => s.profile },
    { key: "card", title: "Card", of: (s) => nameOf(s.card), sort: (s) => placeOf(s.card) },
    { key: "vram", title: "VRAM", number: true, of: (s) => gib(s.vram), sort: (s) => s.vram },
    { key: "used", title: "In use", number: true, of: (s) => inUse(s.id) ?? "–", sort: (s) => now.used.get(s.id) ?? -1 },
    { key: "cores", title: "Cores", number: true, of: (s) => cores(s.cores), sort: (s) => s.cores },
    { key: "since", title: "Since", number: true, of: (s) => moment(s.since), sort: (s) => s.since ?? 0 },
    { key: "until", title: "Until", number: true, of: (s) => moment(s.until), sort: (s) => s.until ?? Infinity },
  ],
});

export function begin() {
  byId("cards-table").append(table.element);
  const view = byId("cards-as-table");
  view.checked = localStorage.getItem("hami-cards") === "table";
  view.addEventListener("change", () => {
    localStorage.setItem("hami-cards", view.checked ? "table" : "bars");
    showView();
  });
  byId("cards-search").addEventListener("input", paused(() => search(byId("cards-search").value), 150));
  byId("cards-bars").addEventListener("keydown", walk);
  showView();
  onChange(draw);
}

function showView() {
  const asTable = byId("cards-as-table").checked;
  byId("cards-table").hidden = !asTable;
  byId("cards-bars").hidden = asTable;
  if (asTable) drawTable();
}

function search(text) {
  looked = text.trim().toLowerCase();
  table.restart();
  rows.forEach((row, uuid) => light(uuid, row));
  drawTable();
}

const nameOf = (uuid) => {
  const card = now.cards.get(uuid);
  return card ? `${card.node ? `${card.node} · ` : ""}${card.index} · ${card.model}` : uuid;
};
const placeOf = (uuid) => {
  const card = now.cards.get(uuid);
  return card ? `${card.node}\u0000${String(card.index).padStart(4, "0")}` : `\uffff${uuid}`;
};
const inUse = (id) => (now.used.has(id) ? gib(now.used.get(id)) : null);

function matches(slice) {
  if (!looked) return true;
  return [slice.user, slice.server, slice.group, slice.profile, nameOf(slice.card)].some((each) =>
    each.toLowerCase().includes(looked),
  );
}

// --- drawing: only what has changed ---------------------------------------------------------------------------------

function draw(changed) {
  for (const id of changed.cards) now.cards.has(id) ? drawCard(id) : dropCard(id);
  if (changed.cards.size) arrange();
  const touched = new Set(changed.cards);
  if (changed.slices.size || changed.cards.size) regroup(changed.slices, touched);
  for (const uuid of touched) if (rows.has(uuid)) drawSlices(uuid);
  inPieces(changed.used, drawUse);
  if (changed.slices.size || changed.cards.size || changed.used.size || !now.cards.size) drawSum();
  if (changed.slices.size || changed.used.size) drawTable();
}

function drawCard(uuid) {
  const card = now.cards.get(uuid);
  let row = rows.get(uuid);
  if (!row) {
    const id = newId();
    const name = h("span", { class: "card-name", id });
    const words = h("span", { class: "card-words" });
    const bar = h("div", { class: "bar", role: "group", "aria-labelledby": id });
    row = { element: h("div", { class: "card" }, h("div", { class: "card-head" }, name, words), bar), bar, name, words };
    row.slices = new Map();
    rows.set(uuid, row);
  }
  put(row.name, nameOf(uuid));
  row.element.title = uuid;
  row.bar.classList.toggle("broken", card.state !== "ok");
}

function dropCard(uuid) {
  rows.get(uuid)?.element.remove();
  rows.delete(uuid);
}

function arrange() {
  const order = [...rows.keys()].sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
  const bars = byId("cards-bars");
  order.forEach((uuid, place) => {
    const { element } = rows.get(uuid);
    if (bars.children[place] !== element) bars.insertBefore(element, bars.children[place] ?? null);
  });
}

function regroup(ids, touched) {
  const before = onCard;
  onCard = new Map();
  for (const slice of now.slices.values()) {
    if (!onCard.has(slice.card)) onCard.set(slice.card, []);
    onCard.get(slice.card).push(slice);
  }
  for (const list of onCard.values()) list.sort((a, b) => (a.since ?? 0) - (b.since ?? 0) || (a.id < b.id ? -1 : 1));
  for (const id of ids) {
    const slice = now.slices.get(id);
    if (slice) touched.add(slice.card);
  }
  for (const [uuid, list] of before) if (list.some((slice) => ids.has(slice.id))) touched.add(uuid);
}

function drawSlices(uuid) {
  const row = rows.get(uuid);
  const card = now.cards.get(uuid);
  const list = onCard.get(uuid) ?? [];
  const here = new Set(list.map((slice) => slice.id));
  for (const [id, button] of row.slices) {
    if (here.has(id)) continue;
    button.remove();
    row.slices.delete(id);
  }
  list.forEach((slice, place) => {
    const button = row.slices.get(slice.id) ?? newSlice(row, slice.id);
    button.style.setProperty("--hue", hue(slice.user));
    put(button.firstChild, who(slice));
    button.style.width = `${Math.min(100, (100 * slice.vram) / Math.max(1, card.vram))}%`;
    if (row.bar.children[place] !== button) row.bar.insertBefore(button, row.bar.children[place] ?? null);
    drawUse(slice.id);
  });
  const taken = list.reduce((sum, slice) => sum + slice.vram, 0);
  const free = list.some((slice) => slice.exclusive) ? 0 : Math.max(0, card.vram - taken);
  const state = { broken: "out of order", closed: "closed by an admin" }[card.state];
  put(row.words, `${gib(card.vram)}, ${state ?? (free ? `${gib(free)} free` : "nothing free")}`);
  light(uuid, row);
  keepOneTabStop();
}

function newSlice(row, id) {
  const button = h("button", { type: "button", class: "slice", tabindex: "-1" });
  button.append(h("span", { class: "slice-name" }), h("span", { class: "slice-use" }, h("span")));
  tip(button, () => about(id));
  row.slices.set(id, button);
  return button;
}

function drawUse(id) {
  const slice = now.slices.get(id);
  const button = slice && rows.get(slice.card)?.slices.get(id);
  if (!button) return;
  const used = now.used.get(id);
  const bar = button.lastChild;
  if (bar.hidden !== (used === undefined)) bar.hidden = used === undefined;
  const width = `${Math.round(Math.min(100, (100 * (used ?? 0)) / Math.max(1, slice.vram)))}%`;
  if (bar.firstChild.style.width !== width) bar.firstChild.style.width = width;
}

/** What a slice is, as lines. */
function about(id) {
  const slice = now.slices.get(id);
  if (!slice) return ["It has ended."];
  const used = inUse(id);
  return [
    who(slice),
    `${gib(slice.vram)}${slice.exclusive ? ", the card to itself" : ""} · ${cores(slice.cores)}`,
    used === null ? "What is in use of it isn't known." : `${used} in use`,
    `Profile ${slice.profile || "not known"}, paid by ${payer(slice.group)}`,
    `Since ${moment(slice.since)}${slice.until ? `, until ${moment(slice.until)}` : ", no end set"}`,
  ];
}

/** What is looked for stands out; the rest steps back. */
function light(uuid, row) {
  let found = !looked || nameOf(uuid).toLowerCase().includes(looked);
  for (const [id, button] of row.slices) {
    const slice = now.slices.get(id);
    const match = Boolean(slice) && matches(slice);
    button.classList.toggle("pale", !match);
    found ||= match;
  }
  row.element.hidden = !found;
}

function drawSum() {
  byId("cards-none").hidden = now.cards.size > 0;
  let given = 0;
  let used = 0;
  let all = 0;
  for (const card of now.cards.values()) all += card.vram;
  for (const slice of now.slices.values()) {
    given += slice.vram;
    used += now.used.get(slice.id) ?? 0;
  }
  const servers = new Set([...now.slices.values()].map((slice) => slice.holder)).size;
  const cards = count(now.cards.size, "card", "cards");
  const inUse = now.used.size ? `, ${gib(used)} of that in use` : "";
  const of = all ? ` of ${gib(all)}` : "";
  put(byId("sum"), `${cards}: ${gib(given)}${of} given to ${count(servers, "server", "servers")}${inUse}.`);
}

function drawTable() {
  if (byId("cards-table").hidden) return;
  table.show([...now.slices.values()].filter(matches));
}

// --- keyboard: one stop for Tab, arrows inside ----------------------------------------------------------------------

function keepOneTabStop() {
  const bars = byId("cards-bars");
  if (!bars.querySelector('.slice[tabindex="0"]')) bars.querySelector(".slice")?.setAttribute("tabindex", "0");
}

function walk(event) {
  const at = event.target.closest?.(".slice");
  if (!at) return;
  const to = goal(at, event.key);
  if (!to) return;
  event.preventDefault();
  at.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

function goal(at, key) {
  const all = [...at.parentElement.children];
  if (key === "ArrowRight") return at.nextElementSibling;
  if (key === "ArrowLeft") return at.previousElementSibling;
  if (key === "Home") return all[0];
  if (key === "End") return all.at(-1);
  if (key !== "ArrowDown" && key !== "ArrowUp") return null;
  const cards = [...byId("cards-bars").children].filter((card) => !card.hidden && card.querySelector(".slice"));
  const place = cards.indexOf(at.closest(".card")) + (key === "ArrowDown" ? 1 : -1);
  return cards[place]?.querySelector(".slice");
}
