// Questions to the service.

const root = document.documentElement.dataset.base;

/** A place below the service, with its query. */
export function place(path, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== null));
  return `${root}${path}${asked.size ? `?${asked}` : ""}`;
}

/** What the service says no to: its sentence, and what else it told. */
export class Refused extends Error {
  constructor(status, said) {
    super(said.message || `The service answers with ${status}.`);
    this.status = status;
    this.said = said;
  }
}

/** The answer to a GET, or to a PUT of `body`. */
export async function ask(path, { query, body, headers = {}, signal } = {}) {
  const answer = await fetch(place(path, query), {
    method: body === undefined ? "GET" : "PUT",
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: { "X-XSRFToken": document.documentElement.dataset.xsrf, ...headers },
    credentials: "same-origin",
    cache: "no-store",
    signal,
  });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, said);
  return said;
}
