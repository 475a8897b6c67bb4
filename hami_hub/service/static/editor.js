// One quota being edited.  Each change is tried out: a fault stands beside its field, and what the quota would have
// refused lately is said before anything is saved.  Somebody else's change is never written over unseen.

import { ask } from "./ask.js";
import { byId, h, newId, paused, put } from "./dom.js";
import { look, payer } from "./live.js";
import { count, gib, moment } from "./words.js";

const LABELS = {
  "hami.vram": ["VRAM", "of all servers of the group together"],
  "hami.cores": ["Cores", "percent of a card, all servers together: 200 is two cards"],
  "hami.servers": ["GPU servers", "at once, all together"],
  "hami.vram-per-user": ["VRAM for each person", ""],
  "hami.cores-per-user": ["Cores for each person", "percent of a card"],
  "hami.servers-per-user": ["GPU servers for each person", "at once"],
  "hami.profiles": ["Profiles", "that the group pays for, with commas; all if empty"],
  "hami.max-lifetime": ["Longest lifetime", "after which a server is stopped"],
  "hami.idle-timeout": ["Idle time", "after which an unused server is stopped"],
  "hami.weight": ["Weight", "share of the turns among those who wait; 1 if empty"],
};
const USER = "hami.user.";

let open = null; // {group, version, keys, exceptions, editable, back, fields: Map of key to field, saving}
let asked = 0;
let trial = 0;

/** Show the quota of `group`; `back()` gives the element to which the focus returns at the end. */
export async function edit(group, back) {
  const mine = ++asked;
  const box = byId("editor");
  try {
    const said = await ask(`api/quotas/${encodeURIComponent(group)}`);
    if (mine !== asked) return;
    open = { ...said, back, fields: new Map(), saving: false };
    draw(said.properties);
    box.hidden = false;
    byId("editor-title").focus();
    if (open.editable) tryOut();
    else faults(said.faults);
  } catch (error) {
    if (mine !== asked) return;
    open = null;
    box.replaceChildren(h("p", { class: "note bad", role: "alert" }, error.message));
    box.hidden = false;
  }
}

function close() {
  byId("editor").hidden = true;
  open.back()?.focus();
  open = null;
}

function draw(properties) {
  const { keys, editable, group, members } = open;
  const known = Object.keys(keys).map((key) => field(key, properties[key] ?? "", ...(LABELS[key] ?? [key, ""]), keys[key]));
  const strange = Object.entries(properties).filter(([key]) => !(key in keys) && !exception(key));
  const form = h(
    "form",
    { novalidate: true, onsubmit: save },
    h("h3", { id: "editor-title", tabindex: "-1" }, `Quota of ${payer(group)}`),
    h("p", { class: "quiet" }, group ? `${count(members, "member", "members")}. An empty field is no limit.` : DEFAULT),
    h("div", { class: "fields" }, ...known),
    h("fieldset", {}, h("legend", {}, "Exceptions for one person"), h("div", { id: "exceptions" }), addException()),
    strange.length ? unknown(strange) : null,
    h("div", { id: "trial", class: "trial", "aria-live": "polite" }),
    h("div", { id: "conflict" }),
    h(
      "div",
      { class: "actions" },
      editable ? h("button", { class: "button main", id: "save" }, "Save") : null,
      h("button", { type: "button", class: "button", onclick: close }, editable ? "Cancel" : "Close"),
    ),
  );
  form.addEventListener("keydown", (event) => event.key === "Escape" && close());
  byId("editor").replaceChildren(form);
  for (const key of Object.keys(properties)) if (exception(key)) showException(key, properties[key]);
  if (!editable) form.querySelectorAll("input, fieldset button").forEach((element) => (element.disabled = true));
}

const DEFAULT = "For people who have no group with a quota. It is set in the hub's configuration, c.GpuSlices.default_quota.";

function field(key, value, label, hint, example) {
  const id = newId();
  const described = `${id}-hint ${id}-fault`;
  const input = h("input", {
    ...{ id, type: "text", autocomplete: "off", spellcheck: "false", placeholder: example, value },
    ...{ "aria-describedby": described, oninput: typing },
  });
  const fault = h("div", { class: "fault", id: `${id}-fault` });
  open.fields.set(key, { input, fault });
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    input,
    h("div", { class: "quiet", id: `${id}-hint` }, h("code", {}, key), hint ? ` ${hint}` : ""),
    fault,
  );
}

// --- exceptions for one person ---------------------------------------------------------------------------------------

function exception(key) {
  if (!key.startsWith(USER)) return null;
  const dot = key.lastIndexOf(".");
  const [user, what] = [key.slice(USER.length, dot), key.slice(dot + 1)];
  return user && open.exceptions.includes(what) ? { user, what } : null;
}

function addException() {
  if (!open.editable) return null;
  const name = h("input", { id: "exception-user", type: "text", autocomplete: "off", spellcheck: "false" });
  const add = () => {
    const user = name.value.trim();
    if (!user) return name.focus();
    open.exceptions.forEach((what) => showException(`${USER}${user}.${what}`, ""));
    name.value = "";
    open.fields.get(`${USER}${user}.${open.exceptions[0]}`).input.focus();
  };
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    add();
  });
  return h(
    "div",
    { class: "inline" },
    h("label", { for: "exception-user" }, "User"),
    name,
    h("button", { type: "button", class: "button", onclick: add }, "Add an exception"),
  );
}

function showException(key, value) {
  const { user, what } = exception(key);
  if (open.fields.has(key)) return;
  const [label] = LABELS[`hami.${what}`];
  byId("exceptions").append(field(key, value, `${label} for ${user}`, "", open.keys[`hami.${what}`]));
}

/** Keys that mean nothing: shown as they stand, to be taken away. */
function unknown(entries) {
  const rows = entries.map(([key, value]) => {
    const row = field(key, value, key, "", "");
    const remove = () => {
      open.fields.delete(key);
      row.remove();
      typing();
      byId("editor-title").focus();
    };
    row.append(h("button", { type: "button", class: "button", onclick: remove }, `Remove ${key}`));
    return row;
  });
  return h("fieldset", {}, h("legend", {}, "Not understood"), ...rows);
}

// --- trying out and saving -------------------------------------------------------------------------------------------

function typed() {
  const texts = {};
  for (const [key, { input }] of open.fields) if (input.value.trim()) texts[key] = input.value.trim();
  return texts;
}

const changed = paused(() => open?.editable && tryOut(), 350);

/** A fault of what stood there before keeps nobody from saving: what is typed now is judged when it is saved, or soon. */
function typing() {
  byId("save").disabled = open.saving;
  changed();
}

async function tryOut() {
  const [mine, quota] = [++trial, open];
  const late = () => mine !== trial || open !== quota;
  try {
    const said = await ask("api/dry-run", { query: { group: open.group, ...typed() } });
    if (late()) return;
    faults(said.faults);
    const examples = (said.refused ?? []).map((each) =>
      h("li", {}, `${each.user}, ${moment(each.at)}: ${each.vram ? gib(each.vram) : "a server"} (${each.key})`),
    );
    byId("trial").replaceChildren(
      ...(said.faults.length ? [] : [h("p", {}, said.text)]),
      ...(examples.length ? [h("ul", { class: "quiet" }, ...examples)] : []),
      ...(said.now ? [h("p", { class: "note warn" }, said.now)] : []),
    );
  } catch (error) {
    if (!late()) put(byId("trial"), error.message);
  }
}

/** Each fault beside its field. */
function faults(found) {
  const byKey = new Map(found.map((fault) => [fault.key, fault.text]));
  for (const [key, { input, fault }] of open.fields) {
    put(fault, byKey.get(key) ?? "");
    input.setAttribute("aria-invalid", byKey.has(key));
  }
  const save = byId("save");
  if (save) save.disabled = open.saving || found.length > 0;
}

async function save(event) {
  event.preventDefault();
  if (!open.editable) return;
  const mine = open;
  const { group, version } = mine;
  const button = byId("save");
  button.disabled = mine.saving = true;
  try {
    await ask(`api/quotas/${encodeURIComponent(group)}`, { body: typed(), headers: { "If-Match": `"${version}"` } });
    put(byId("saved"), `The quota of ${payer(group)} is saved. It holds from now on.`);
    if (open === mine) close();
    look();
  } catch (error) {
    mine.saving = false;
    if (open !== mine) return put(byId("saved"), error.message);
    button.disabled = false;
    if (error.status === 409) conflict(error);
    else refused(error);
  }
}

function refused(error) {
  if (error.said?.faults) faults(error.said.faults);
  byId("conflict").replaceChildren(h("p", { class: "note bad", role: "alert" }, error.message));
}

/** Somebody else was faster: their values, and the choice. */
function conflict(error) {
  const theirs = error.said;
  const takeTheirs = () => {
    open = { ...open, ...theirs, editable: true, fields: new Map() };
    draw(theirs.properties);
    byId("editor-title").focus();
    tryOut();
  };
  const keepMine = () => {
    open.version = theirs.version;
    byId("conflict").replaceChildren();
    byId("save").focus();
  };
  byId("conflict").replaceChildren(
    h(
      "div",
      { class: "note bad", role: "alert" },
      h("p", {}, error.message),
      h("button", { type: "button", class: "button", onclick: takeTheirs }, "Take theirs"),
      " ",
      h("button", { type: "button", class: "button", onclick: keepMine }, "Keep mine, to be saved over it"),
    ),
  );
}
