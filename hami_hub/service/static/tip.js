// One small box that says more about what is pointed at or focused.  It can be pointed at itself, and Escape ends it.

import { byId, h } from "./dom.js";

let shownFor = null;
let lines = () => [];
let leaving = 0;

/** Show what `of()` gives, a list of lines, while `element` is pointed at or focused. */
export function tip(element, of) {
  const come = () => show(element, of);
  element.addEventListener("pointerenter", come);
  element.addEventListener("focus", come);
  element.addEventListener("click", come);
  element.addEventListener("pointerleave", leave);
  element.addEventListener("blur", hide);
}

/** Say anew what is shown: it may have changed. */
export function refresh() {
  if (!shownFor) return;
  if (!shownFor.isConnected) return hide();
  fill();
}

export function begin() {
  const box = byId("tip");
  box.addEventListener("pointerenter", () => clearTimeout(leaving));
  box.addEventListener("pointerleave", leave);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("scroll", hide, { passive: true });
}

function show(element, of) {
  clearTimeout(leaving);
  shownFor = element;
  lines = of;
  fill();
  const box = byId("tip");
  box.hidden = false;
  element.setAttribute("aria-describedby", "tip");
  const at = element.getBoundingClientRect();
  const below = at.bottom + box.offsetHeight + 8 < innerHeight;
  box.style.left = `${Math.max(4, Math.min(at.left, innerWidth - box.offsetWidth - 4))}px`;
  box.style.top = `${below ? at.bottom : at.top - box.offsetHeight}px`;
}

function fill() {
  byId("tip").replaceChildren(...lines().map((line, place) => h(place ? "div" : "strong", {}, line)));
}

function leave() {
  clearTimeout(leaving);
  leaving = setTimeout(hide, 200);
}

function hide() {
  clearTimeout(leaving);
  shownFor?.removeAttribute("aria-describedby");
  shownFor = null;
  byId("tip").hidden = true;
}
