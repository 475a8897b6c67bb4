// Amounts, times and names as people read them.

const clock = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 }); // made once: making one takes its time
const dated = new Intl.DateTimeFormat([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** MiB as GiB with at most one decimal, as the form says it. */
export function gib(mib) {
  const tenths = Math.floor((mib * 10) / 1024);
  return mib && !tenths ? `${mib}\u00a0MiB` : `${plain.format(tenths / 10)}\u00a0GiB`;
}

/** Percent of cards. */
export const cores = (percent) => (percent ? `${percent}\u00a0%` : "no share");

/** A moment: the time of day, with the day if it isn't today. */
export function moment(unix) {
  if (!unix) return "–";
  const at = new Date(unix * 1000);
  return (at.toDateString() === new Date().toDateString() ? clock : dated).format(at);
}

/** How long something has lasted. */
export function lasting(seconds) {
  const minutes = Math.max(0, Math.round(seconds / 60));
  if (minutes < 1) return "less than a minute";
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** A number of things. */
export const count = (n, one, many) => `${plain.format(n)} ${n === 1 ? one : many}`;

/** GiB-hours. */
export const hours = (number) =>
  number.toLocaleString("en", { maximumFractionDigits: number < 10 ? 2 : number < 1000 ? 1 : 0 });

/** A person with the name of their server, if it has one. */
export const who = (row) => (row.server ? `${row.user} / ${row.server}` : row.user);

/** Which hue a person has, in degrees: the same on every card and after every restart. */
export function hue(user) {
  let hash = 7;
  for (const character of user) hash = Math.imul(hash ^ character.codePointAt(0), 2654435761);
  return ((hash >>> 8) % 24) * 15;
}
