// Somebody's own page, kept up to date: the service renders it, and what has changed is put in its place.

import { place } from "./ask.js";
import { byId } from "./dom.js";

const PERIOD = 5000;
const LONGEST = 60000;
let failures = 0;
let timer = 0;
let shown = byId("part").innerHTML.trim(); // before anything here changes it

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
    show(await answer.text());
    failures = 0;
    byId("silent").hidden = true;
  } catch {
    failures += 1;
    byId("silent").hidden = false;
  }
  if (!document.hidden) timer = setTimeout(look, Math.min(LONGEST, PERIOD * 2 ** Math.min(failures, 4)));
}

/**
 * Put the service's own page, which escapes names, in the place of what is shown, if it is another: else who stands in it
 * would lose their place.  No script in it would run either, by the page's policy.
 */
function show(part) {
  const { body } = new DOMParser().parseFromString(part, "text/html");
  const came = body.innerHTML.trim();
  if (came === shown) return;
  shown = came;
  byId("part").replaceChildren(...body.childNodes);
  times();
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : look()));
times();
look();
