// Who waits for room, in order, and why.

import { byId, put } from "./dom.js";
import { now, onChange, payer } from "./live.js";
import { Table } from "./table.js";
import { cores, count, gib, lasting, who } from "./words.js";

const table = new Table({
  caption: "Servers that wait for room",
  noun: ["server waits", "servers wait"],
  empty: "Nobody waits.",
  columns: [
    { key: "place", title: "Place", of: (row) => String(row.place || "–") },
    { key: "user", title: "Server", of: who },
    { key: "group", title: "Paid by", of: (row) => payer(row.group) },
    { key: "profile", title: "Profile", of: (row) => row.profile || "–" },
    { key: "asks", title: "Asks for", of: asks },
    { key: "since", title: "Waits", number: true, of: (row) => lasting(now.at - row.since) },
    { key: "why", title: "Why", of: (row) => row.why || "–" },
  ],
});

function asks(row) {
  const cards = row.cards > 1 ? ` on ${row.cards} cards` : "";
  return row.vram ? `${gib(row.vram)}${cards} · ${cores(row.cores)}` : row.asks || "–";
}

export function begin() {
  byId("queue-table").append(table.element);
  onChange((changed) => changed.waiting.size && draw());
  setInterval(() => now.waiting.size && draw(), 30000);
  draw();
}

function draw() {
  table.show([...now.waiting.values()].sort((a, b) => (a.place || 1e9) - (b.place || 1e9) || a.since - b.since));
  put(byId("queue-count"), now.waiting.size ? ` ${count(now.waiting.size, "waits", "wait")}` : "");
}
