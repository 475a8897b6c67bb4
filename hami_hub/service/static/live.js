// What goes on, kept up to date: asks every two seconds, gets what has changed since, and tells who draws it.

import { ask } from "./ask.js";

const PERIOD = 2000;
const LONGEST = 30000;
const SECTIONS = ["cards", "slices", "used", "waiting", "groups", "notes"];

/** Everything, by section and id.  `at` is the service's clock. */
// Maps: a group may be called "__proto__".
export const now = Object.fromEntries([...SECTIONS.map((section) => [section, new Map()]), ["at", 0]]);

/** Who pays: a group, the default quota, or nobody where there is none. */
export const payer = (group) => group || (now.groups.has("") ? "default quota" : "nobody");

const drawers = [];
const told = { state: () => {} };
let revision = "";
let failures = 0;
let timer = 0;
let asked = 0;
let heard = 0;

/** Call `draw(changed)` at each change; `changed` has a set of ids for each section. */
export const onChange = (draw) => drawers.push(draw);

/** Call `tell(text, good)` when hearing from the service begins or ends. */
export const onState = (tell) => (told.state = tell);

/** Begin to ask. */
export function begin() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) look();
  });
  return look();
}

/** Ask now, and again later. */
export async function look() {
  clearTimeout(timer);
  const mine = ++asked;
  try {
    const said = await ask("api/now", { query: { since: revision }, signal: AbortSignal.timeout(15000) });
    if (mine < heard) return; // who was asked later knew more
    heard = mine;
    take(said);
    failures = 0;
    told.state("Live", true);
  } catch (error) {
    if (mine < heard) return;
    failures += 1;
    if (error.status === 401) {
      told.state("You are logged out. Load the page again.", false);
      return;
    }
    told.state("The page doesn't hear from the service and shows what it knew last. It tries again.", false);
  }
  if (!document.hidden) timer = setTimeout(look, Math.min(LONGEST, PERIOD * 2 ** Math.min(failures, 5)));
}

function take(said) {
  now.at = said.at;
  if (said.revision === revision) return;
  const changed = {};
  for (const section of SECTIONS) {
    const rows = now[section];
    const ids = new Set(said.base ? said.gone[section] : rows.keys());
    ids.forEach((id) => rows.delete(id));
    for (const [id, row] of Object.entries(said.sections[section] || {})) {
      rows.set(id, row);
      ids.add(id);
    }
    changed[section] = ids;
  }
  revision = said.revision;
  drawers.forEach((draw) => draw(changed));
}
