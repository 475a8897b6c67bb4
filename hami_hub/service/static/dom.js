// Elements and their words.  Text goes in as text only: no name that a person chose can become markup.

/** An element: `h("td", {class: "amount", title: "…"}, "4 GiB", another)`.  Properties with `on` are listeners. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The element with an id. */
export const byId = (id) => document.getElementById(id);

let ids = 0;

/** An id that no other element has. */
export const newId = () => `id-${++ids}`;

/** Set an element's text, if it is another: what hasn't changed is neither drawn nor read out again. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Call `act` for each of `items`, a few milliseconds in each frame, so that the page stays at hand. */
export function inPieces(items, act) {
  const rest = [...items];
  const piece = () => {
    const end = performance.now() + 8;
    while (rest.length && performance.now() < end) act(rest.pop());
    if (rest.length) requestAnimationFrame(piece);
  };
  piece();
}

/** Call `act` once typing has paused. */
export function paused(act, wait = 300) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), wait);
  };
}
