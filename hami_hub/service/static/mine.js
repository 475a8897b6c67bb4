// Somebody's own page, kept up to date: the service renders it, and what has changed is put in its place.

import { place } from "./ask.js";
import { byId } from "./dom.js";

const PERIOD = 5000;
const LONGEST = 60000;
let failures = 0;
let timer = 0;
let shown = "";

function times() {
  const words = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  for (const time of document.querySelectorAll("time[data-at]")) {
    time.textContent = words.format(new Date(Number(time.dataset.at) * 1000));
  }
}

async function look() {
  clearTimeout(timer);
  try {
    const answer = await fetch(place("mine", { part: 1 }), {
      headers: { "X-XSRFToken": document.documentElement.dataset.xsrf },
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(15000),
    });
    if (!answer.ok) throw new Error(answer.statusText);
    const part = await answer.text();
    if (part !== shown) {
      if (shown) replace(part);
      shown = part;
    }
    failures = 0;
    byId("silent").hidden = true;
  } catch {
    failures += 1;
    byId("silent").hidden = false;
  }
  if (!document.hidden) timer = setTimeout(look, Math.min(LONGEST, PERIOD * 2 ** Math.min(failures, 4)));
}

/** The service's own page, which escapes names; no script in it would run either, by the page's policy. */
function replace(part) {
  const parsed = new DOMParser().parseFromString(part, "text/html");
  byId("part").replaceChildren(...parsed.body.childNodes);
  times();
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : look()));
times();
look();
