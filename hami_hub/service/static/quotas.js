// Every group's quota with what is in use of it; the chosen one is edited by `editor`.

import { byId, h, paused } from "./dom.js";
import { edit } from "./editor.js";
import { now, onChange, payer } from "./live.js";
import { Table } from "./table.js";
import { gib } from "./words.js";

const mayEdit = document.documentElement.dataset.edits === "true";
let looked = "";

const table = new Table({
  caption: "Quotas by group",
  noun: ["quota", "quotas"],
  empty: "No group has a quota: all may use what is free. Give a group one below.",
  sort: ["group", false],
  columns: [
    { key: "group", title: "Group", of: name, sort: (row) => row.group.toLowerCase() },
    { key: "members", title: "Members", number: true, of: (row) => (row.group ? String(row.members) : "–"), sort: (row) => row.members },
    { key: "vram", title: "VRAM", of: (row) => meter(row, "vram", gib), sort: (row) => row.used.vram, number: true },
    { key: "cores", title: "Cores", of: (row) => meter(row, "cores", (n) => `${n}\u00a0%`), sort: (row) => row.used.cores, number: true },
    { key: "servers", title: "Servers", of: (row) => meter(row, "servers", String), sort: (row) => row.used.servers, number: true },
    { key: "more", title: "More", of: more },
    { key: "edit", title: mayEdit ? "Change" : "Show", of: button },
  ],
});

function name(row) {
  if (!row.faults) return payer(row.group);
  return h("span", {}, payer(row.group), " ", h("span", { class: "badge bad" }, "written wrongly: pays for nothing"));
}

/** In words, with a bar that says the same. */
function meter(row, key, say) {
  if (row.faults) return "–";
  const used = row.used[key];
  const limit = row.limit[key];
  if (limit === null) return used ? `${say(used)}, no limit` : "no limit";
  const part = Math.min(100, (100 * used) / Math.max(1, limit));
  const fill = h("span");
  fill.style.width = `${part}%`;
  const over = used > limit;
  return h(
    "span",
    { class: `meter${over ? " over" : ""}` },
    `${say(used)} of ${say(limit)}${over ? ", over" : ""}`,
    h("span", { class: "meter-bar", "aria-hidden": "true" }, fill),
  );
}

const SHOWN_ELSEWHERE = new Set(["hami.vram", "hami.cores", "hami.servers"]);

function more(row) {
  const others = Object.entries(row.properties).filter(([key]) => !SHOWN_ELSEWHERE.has(key));
  return others.map(([key, value]) => `${key.replace("hami.", "")} ${value}`).join("; ") || "–";
}

function button(row) {
  const label = mayEdit && row.group ? "Edit" : "Show";
  const act = () => edit(row.group, () => byId("quotas-table").querySelector(`[data-group="${CSS.escape(row.group)}"]`));
  return h(
    "button",
    { type: "button", class: "button", "data-group": row.group, "aria-label": `${label} the quota of ${payer(row.group)}`, onclick: act },
    label,
  );
}

export function begin() {
  byId("quotas-table").append(table.element);
  byId("quotas-search").addEventListener("input", paused(() => {
    looked = byId("quotas-search").value.trim().toLowerCase();
    table.restart();
    draw();
  }, 150));
  byId("quota-new")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const group = byId("quota-new-group").value.trim();
    if (group) edit(group, () => byId("quota-new-group"));
  });
  onChange((changed) => changed.groups.size && draw());
}

function draw() {
  const rows = [...now.groups].map(([group, row]) => ({ group, ...row }));
  // who stands on a button goes on standing there
  const focused = document.activeElement?.dataset?.group;
  table.show(rows.filter((row) => !looked || payer(row.group).toLowerCase().includes(looked)));
  if (focused !== undefined) byId("quotas-table").querySelector(`[data-group="${CSS.escape(focused)}"]`)?.focus();
}
