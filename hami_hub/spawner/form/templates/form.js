// Comfort for the spawn form: what a choice takes of the budget, and the form kept up to date while it is looked at.
// It decides nothing and has no words of its own; without it the form works as well.
(() => {
  "use strict";
  const SECOND = 1000;
  const SOON = 5 * SECOND;
  const LATE = 30 * SECOND;
  const HUB_AWAY = 60 * SECOND;
  const TYPING = 0.8 * SECOND;
  const NOBODY_LOOKS = 30 * 60 * SECOND;
  const MIB_PER_GIB = 1024;

  const form = document.getElementById("hami-form");
  const summary = document.getElementById("hami-summary");
  const stale = document.getElementById("hami-stale");
  document.documentElement.classList.add("hami-scripted");

  const all = (selector, root = form) => [...root.querySelectorAll(selector)];
  const known = () => JSON.parse(form.dataset.live);
  const fill = (template, values) => template.replace(/\{(\w+)\}/g, (hole, name) => values[name] ?? hole);
  const put = (element, text) => {
    if (element && element.textContent !== text) element.textContent = text;
  };

  // --- amounts, as hami_hub.core.units reads and writes them

  const mibOf = (text, units) => {
    const match = /^\s*(\d{1,13}(?:\.\d{1,9})?) ?([A-Za-z]{0,3})\s*$/.exec(text);
    const unit = match && units[match[2].toLowerCase()];
    const mib = unit ? Number(match[1]) * unit : 0;
    return mib > 0 && Number.isInteger(mib) ? mib : null;
  };
  const exactly = (mib) => (mib % MIB_PER_GIB ? `${mib} MiB` : `${mib / MIB_PER_GIB} GiB`);
  const shown = {
    vram: (mib) => {
      const tenths = Math.floor((mib * 10) / MIB_PER_GIB);
      return mib && mib < MIB_PER_GIB ? `${mib} MiB` : `${tenths / 10} GiB`;
    },
    cores: (percent) => `${percent} %`,
    servers: String,
  };

  // --- what is chosen, and what it takes

  const checked = (name) => form.querySelector(`input[name="${name}"]:checked`);
  const lineOf = (radio) => radio?.closest(".hami-line");
  const fieldOf = (profile, amount) => document.getElementById(`profile-option-${profile}--${amount}`);

  function chosen(facts) {
    const radio = checked("profile");
    const profile = radio && facts.profiles[radio.value];
    if (!profile) return { radio, takes: null, payer: null };
    const takes = { vram: profile.vram ?? 0, cores: profile.cores ?? 0, servers: 1 };
    const vram = fieldOf(radio.value, "vram");
    if (vram) {
      const cores = fieldOf(radio.value, "cores").value.replace("%", "").trim();
      takes.vram = vram.value.trim() ? (mibOf(vram.value, facts.units) ?? 0) * profile.cards : takes.vram;
      takes.cores = /^\d{1,3}$/.test(cores) ? Number(cores) * profile.cards : takes.cores;
    }
    const only = all(".hami-budget").length === 1 ? form.querySelector(".hami-budget").dataset.group : null;
    return { radio, profile, takes, payer: (checked("group")?.value || profile.payer) ?? only };
  }

  function preview(gauge, takes, words) {
    const { kind, used, mine, limit, myLimit } = gauge.dataset;
    const bar = gauge.querySelector(".hami-choice");
    const then = gauge.querySelector(".hami-then");
    const amount = takes ? takes[kind] : 0;
    const lefts = [limit && limit - used, myLimit && myLimit - mine].filter((left) => left !== "");
    const left = Math.max(0, Math.min(...lefts));
    const over = amount - left;
    const whole = Math.max(Number(limit || myLimit), limit ? Number(used) : Number(mine), 1);
    bar.style.width = amount ? `${(Math.min(amount, over > 0 ? left : amount) * 100) / whole}%` : "0";
    for (const each of [bar, then]) each.classList.toggle("hami-too-much", amount > 0 && over > 0);
    const text = shown[kind];
    if (!amount) put(then, "");
    else if (over > 0) put(then, fill(words.exceeds, { amount: text(amount), over: text(over) }));
    else put(then, fill(words.takes, { amount: text(amount), left: text(left - amount) }));
  }

  // What an amount of VRAM as it is typed comes to: `wrong` if it can never be had, a sentence either way.
  function judged(field, facts) {
    const { least, most, fits } = field.dataset;
    const mib = mibOf(field.value, facts.units);
    const amount = mib === null ? "" : exactly(mib);
    const values = { amount, least: exactly(least), most: exactly(most), fits: exactly(fits) };
    const wrong = mib === null ? "no_amount" : mib < least ? "too_little" : most && mib > most ? "too_much" : "";
    const key = wrong || (fits === "" ? "" : mib <= fits ? "starts" : Number(fits) ? "waits" : "waits_all");
    return { wrong: Boolean(wrong), text: key && field.value.trim() ? fill(facts.words[key], values) : "" };
  }

  function typed(facts) {
    for (const field of all("[data-least]")) {
      const said = field.closest(".col-sm-6").querySelector(".hami-typed");
      const { wrong, text } = judged(field, facts);
      // What is wrong is marked when the field is left, not at each letter, and not where the hub has said it already.
      const told = field.classList.contains("is-invalid") && field.value === field.defaultValue;
      const silent = told || (wrong && field === document.activeElement) || !("touched" in field.dataset);
      put(said, silent ? "" : text);
      said.classList.toggle("hami-too-much", wrong);
    }
  }

  function unpaid(facts) {
    const group = checked("group")?.value ?? "";
    for (const line of all(".hami-profile")) {
      const radio = line.querySelector("input");
      const refusals = facts.profiles[radio.value]?.refusals ?? {};
      const refused = group !== "" && Object.hasOwn(refusals, group);
      radio.dataset.closed ??= String(radio.disabled);
      line.classList.toggle("hami-unpaid", refused && radio.dataset.closed !== "true");
      put(line.querySelector("p.hami-over"), refused ? refusals[group] || fill(facts.words.refused, { group }) : "");
      // What is picked stays picked, and says why it can't be had; it is never moved under the person's hand.
      radio.disabled = (radio.dataset.closed === "true" || refused) && !radio.checked;
    }
  }

  function summarise(facts, { radio, payer, profile }) {
    const line = lineOf(radio);
    if (!line) return put(summary, "");
    const over = line.classList.contains("hami-unpaid") || all(".hami-choice.hami-too-much").length > 0;
    const vram = line.querySelector("[data-least]");
    const amount = vram ? judged(vram, facts) : { wrong: false, text: "" };
    const leads = fill(facts.words.leads, {
      profile: line.querySelector("label").textContent,
      result: line.querySelector(over ? ".badge.hami-over" : ".hami-badge").textContent,
    });
    const sentences = [amount.wrong || (amount.text && !over) ? amount.text : leads];
    const refused = Object.hasOwn(profile?.refusals ?? {}, payer ?? "");
    if (payer && !refused && !over && !amount.wrong) sentences.push(fill(facts.words.pays, { group: payer }));
    put(summary, sentences.join(" "));
  }

  let saying = 0;

  // `typing`: what is said of it waits for a pause.
  function refresh(typing = false) {
    const facts = known();
    const choice = chosen(facts);
    unpaid(facts);
    typed(facts);
    for (const budget of all(".hami-budget")) {
      const pays = choice.takes !== null && budget.dataset.group === choice.payer;
      budget.classList.toggle("hami-pays", pays && budget.classList.contains("hami-line"));
      for (const gauge of all(".hami-gauge", budget)) preview(gauge, pays ? choice.takes : null, facts.words);
    }
    search(facts);
    clearTimeout(saying);
    if (typing) saying = setTimeout(() => summarise(known(), chosen(known())), TYPING);
    else summarise(facts, choice);
  }

  // --- searching many profiles

  function search(facts) {
    const field = document.getElementById("hami-search");
    if (!field) return;
    field.parentElement.hidden = false;
    const wanted = field.value.trim().toLocaleLowerCase();
    let found = 0;
    for (const line of all(".hami-profile")) {
      const fits = line.querySelector(".hami-body").textContent.toLocaleLowerCase().includes(wanted);
      found += fits;
      line.hidden = !fits && !line.querySelector(":checked");
    }
    put(document.getElementById("hami-no-match"), found ? "" : facts.words.no_match);
  }

  // --- keeping up to date: what the hub shows now is put over what is there, the person's own doing left alone

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id ?? "") === (b.id ?? "");

  function sync(now, next) {
    const mine = now.nodeName !== "INPUT" ? [] : "touched" in now.dataset ? ["checked", "value"] : ["checked"];
    for (const { name } of [...now.attributes])
      if (!next.hasAttribute(name) && !mine.includes(name)) now.removeAttribute(name);
    for (const { name, value } of next.attributes)
      if (now.getAttribute(name) !== value && !mine.includes(name)) now.setAttribute(name, value);
  }

  function put_over(now, next) {
    if (now.nodeType !== Node.ELEMENT_NODE) {
      if (now.data !== next.data) now.data = next.data;
      return;
    }
    if (now.hasAttribute("data-script")) return;
    sync(now, next);
    let at = now.firstChild;
    for (const child of [...next.childNodes]) {
      let match = at;
      while (match && !alike(match, child)) match = match.nextSibling;
      if (!match) {
        now.insertBefore(document.importNode(child, true), at);
        continue;
      }
      while (at !== match) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      put_over(match, child);
      at = match.nextSibling;
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  function take(next) {
    const picked = ["profile", "group"].map(checked).filter(Boolean);
    const touched = new Map(all("[data-touched]").map((field) => [field.id, field.value]));
    put_over(form, next);
    for (const radio of picked) {
      const again = document.getElementById(radio.id);
      if (again) again.checked = true;
    }
    for (const [id, value] of touched) {
      const again = document.getElementById(id);
      if (!again) continue;
      again.value = value;
      again.dataset.touched = "";
    }
  }

  let before = "";
  let pause = SOON;
  let timer = 0;
  let touchedAt = Date.now();
  let freshAt = new Date();
  let over = false;

  function say_stale(words, text, reload) {
    stale.textContent = text;
    if (reload) {
      const link = document.createElement("a");
      link.href = location.pathname;
      link.textContent = words.reload;
      link.className = "alert-link";
      stale.append(" ", link);
    }
    stale.hidden = false;
  }

  async function look() {
    let failed = true;
    try {
      // Never with the page's own query: a query with options starts a server.
      const answer = await fetch(location.pathname, { redirect: "manual", headers: { Accept: "text/html" } });
      if (answer.type === "opaqueredirect" || answer.status === 403) {
        over = true;
        return say_stale(known().words, known().words.gone, true);
      }
      const html = answer.ok ? await answer.text() : "";
      const next = new DOMParser().parseFromString(html, "text/html").getElementById("hami-form");
      if (next) {
        failed = false;
        freshAt = new Date();
        stale.hidden = true;
        const changed = next.outerHTML !== before;
        before = next.outerHTML;
        pause = changed ? SOON : Math.min(LATE, pause * 1.5);
        if (changed) {
          take(next);
          refresh();
        }
      }
    } catch {
      // The hub is away, or the network is.
    }
    if (failed) {
      pause = Math.min(HUB_AWAY, pause * 2);
      const time = freshAt.toLocaleTimeString(form.lang, { timeStyle: "short" });
      say_stale(known().words, fill(known().words.stale, { time }), false);
    }
  }

  function later(wait = pause) {
    clearTimeout(timer);
    timer = 0;
    if (over || document.hidden || Date.now() - touchedAt > NOBODY_LOOKS) return;
    timer = setTimeout(() => look().finally(() => later()), wait);
  }

  function someone() {
    touchedAt = Date.now();
    if (!timer) later(0);
  }

  // --- beginning

  form.addEventListener("input", (event) => {
    const typing = event.target.type !== "radio";
    if (typing) event.target.dataset.touched = "";
    refresh(typing);
  });
  form.addEventListener("focusout", () => typed(known()));
  form.addEventListener("keydown", (event) => {
    // Enter in the search looks, it doesn't start a server.
    if (event.key === "Enter" && event.target.id === "hami-search") event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : later(0)));
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, someone, { passive: true });
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    over = false;
    later(0);
  });
  document.getElementById("spawn_form")?.addEventListener("submit", () => {
    over = true;
    later();
  });
  // What a link or a refusal has preset is the person's as much as what they type.
  if (location.search || document.querySelector(".spawn-error-msg"))
    for (const field of all(".hami-amounts input")) field.dataset.touched = "";
  addEventListener("DOMContentLoaded", () => {
    before = form.outerHTML;
    document.querySelector("#spawn_form .feedback-container")?.prepend(summary);
    refresh();
    later();
  });
})();
