// Follows the hub's news of a start: what is said, the place in line, the time, the tab's title; and cancels it.
(() => {
  "use strict";
  const SECOND = 1000;
  const AGAIN = 3 * SECOND;

  const page = document.getElementById("hami-waiting");
  const at = (id) => document.getElementById(id);
  const { headings, words } = JSON.parse(page.dataset.words);
  const since = Date.now() - Number(page.dataset.seconds) * SECOND;
  const log = at("progress-log");
  const bar = at("progress-bar");
  let state = page.dataset.state;
  let position = Number(page.dataset.position);
  let lastSaid = "";
  let cancelled = false;
  let news = null;

  const pad = (number) => String(number).padStart(2, "0");
  const put = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  const clock = (date) => date.toLocaleTimeString(page.lang, { timeStyle: "short" });

  function elapsed() {
    const seconds = Math.max(0, Math.floor((Date.now() - since) / SECOND));
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    return hours ? `${hours}:${pad(minutes)}:${pad(seconds % 60)}` : `${minutes}:${pad(seconds % 60)}`;
  }

  function tick() {
    at("hami-elapsed").hidden = ended();
    put(at("hami-elapsed").querySelector("dd"), elapsed());
  }

  const ended = () => ["failed", "cancelled", "ready"].includes(state);

  function show(next) {
    state = page.dataset.state = next;
    put(at("hami-heading"), headings[state]);
    document.title = `${state === "waiting" && position ? `(${position}) ` : ""}${headings[state]}`;
    at("hami-position").hidden = state !== "waiting" || !position;
    put(at("hami-position").querySelector("dd"), String(position));
    if (state !== "waiting") at("hami-frees").hidden = true;
    at("hami-redirected").hidden = ended();
    at("hami-cancel").hidden = ended() || !at("hami-sure").hidden;
    if (ended() || state !== "waiting") at("hami-sure").hidden = true;
    at("hami-again").hidden = at("hami-home").hidden = state !== "failed";
    tick();
  }

  function frees(until) {
    const row = at("hami-frees");
    row.hidden = !until || ended();
    if (until) put(row.querySelector("dd"), clock(new Date(until * SECOND)));
  }

  function say(event) {
    const said = document.createElement("div");
    if (event.html_message !== undefined) said.innerHTML = event.html_message;
    else said.textContent = event.message ?? "";
    if (said.innerHTML === lastSaid) return;
    lastSaid = said.innerHTML;
    at("progress-message").innerHTML = lastSaid;
    const line = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = clock(new Date());
    line.append(time, ...said.cloneNode(true).childNodes);
    log.append(line);
  }

  function heard(message) {
    const event = JSON.parse(message.data);
    at("hami-trouble").hidden = true;
    if (event.progress !== undefined) {
      bar.setAttribute("aria-valuenow", event.progress);
      bar.style.width = `${event.progress}%`;
    }
    // While a start is being cancelled the hub may take its server for a running one.
    if (cancelled) return;
    // The hub's own first words say nothing that the page doesn't.
    if (!event.progress && !event.hami && !event.ready && !event.failed) return;
    say(event);
    position = event.hami?.position ?? 0;
    if (event.ready) {
      news.close();
      show("ready");
      location.reload();
    } else if (event.failed) {
      news.close();
      show("failed");
      at("progress-details").open = log.children.length > 1;
      at("hami-heading").focus();
    } else {
      show(event.hami?.state ?? "starting");
      frees(event.hami?.frees_at);
    }
  }

  function listen() {
    news = new EventSource(page.dataset.progressUrl);
    news.addEventListener("open", () => {
      // After a break the hub tells everything again.
      log.replaceChildren();
      lastSaid = "";
      at("hami-trouble").hidden = true;
    });
    news.addEventListener("message", heard);
    news.addEventListener("error", () => {
      if (ended() || cancelled) return;
      put(at("hami-trouble"), words.lost);
      at("hami-trouble").hidden = false;
      // A hub that was started anew knows nothing of this start: its page says how things stand.
      if (news.readyState === EventSource.CLOSED) setTimeout(look_again, AGAIN);
    });
  }

  async function look_again() {
    try {
      await fetch(location.pathname, { method: "GET", redirect: "manual" });
      location.reload();
    } catch {
      setTimeout(look_again, AGAIN);
    }
  }

  // --- cancelling, in place of the form as JupyterHub's API has it: the progress of a server is told below its own URL

  async function cancel() {
    cancelled = true;
    at("hami-sure").hidden = true;
    at("hami-cancel").hidden = false;
    at("hami-cancel").disabled = true;
    put(at("progress-message"), words.cancelling);
    lastSaid = "";
    const server = page.dataset.progressUrl.replace(/\/progress(?=\?|$)/, "");
    try {
      const answer = await fetch(server, { method: "DELETE" });
      if (!answer.ok) throw new Error(answer.statusText);
      news.close();
      show("cancelled");
      location.href = page.dataset.spawnUrl;
    } catch {
      cancelled = false;
      at("hami-cancel").disabled = false;
      put(at("hami-trouble"), words.not_cancelled);
      at("hami-trouble").hidden = false;
    }
  }

  at("hami-buttons").addEventListener("submit", (event) => {
    event.preventDefault();
    if (state !== "waiting" || !position) return cancel();
    at("hami-cancel").hidden = true;
    at("hami-sure").hidden = false;
    at("hami-keep").focus();
  });
  at("hami-cancel-now").addEventListener("click", cancel);
  at("hami-keep").addEventListener("click", () => {
    at("hami-sure").hidden = true;
    at("hami-cancel").hidden = false;
    at("hami-cancel").focus();
  });

  at("hami-buttons").hidden = false;
  show(state);
  frees(Number(page.dataset.freesAt));
  setInterval(tick, SECOND);
  listen();
  window._jupyterhub_page_loaded = true; // as JupyterHub's own page says it
})();
