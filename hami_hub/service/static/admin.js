// The admin's page: its parts, one shown at a time, named in the address.

import * as cards from "./cards.js";
import { byId, h, put } from "./dom.js";
import * as live from "./live.js";
import * as queue from "./queue.js";
import * as quotas from "./quotas.js";
import * as starts from "./starts.js";
import * as tip from "./tip.js";
import * as usage from "./usage.js";

const tabs = [...document.querySelectorAll('[role="tab"]')];
const parts = { usage, starts };

function open(name, focus = false) {
  const chosen = tabs.find((tab) => tab.dataset.part === name) ?? tabs[0];
  for (const tab of tabs) {
    const here = tab === chosen;
    tab.setAttribute("aria-selected", here);
    tab.tabIndex = here ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !here;
  }
  if (focus) chosen.focus();
  document.title = `${chosen.dataset.title} · GPU slices`;
  parts[chosen.dataset.part]?.open();
}

const named = () => location.hash.slice(1).split("/")[0];

for (const tab of tabs) {
  tab.addEventListener("click", () => {
    history.replaceState(null, "", `#${tab.dataset.part}`);
    open(tab.dataset.part);
  });
}

document.querySelector('[role="tablist"]').addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const at = tabs.indexOf(document.activeElement);
  const next = tabs[(at + by + tabs.length) % tabs.length];
  history.replaceState(null, "", `#${next.dataset.part}`);
  open(next.dataset.part, true);
});

addEventListener("hashchange", () => open(named()));

live.onState((text, good) => {
  put(byId("state"), text);
  byId("state").classList.toggle("bad", !good);
});

live.onChange((changed) => {
  if (!changed.notes.size) return;
  byId("notes").replaceChildren(...[...live.now.notes.values()].map((note) => h("p", { class: "note warn" }, note.text)));
});

cards.begin();
queue.begin();
quotas.begin();
usage.begin();
starts.begin();
tip.begin();
live.onChange(tip.refresh);
open(named());
live.begin();
