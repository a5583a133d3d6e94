// Numbers, amounts and times as people read them.

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** 1536 → "1.5Ki" */
export function bytes(amount) {
  let unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${trim(amount)}${UNITS[unit]}`;
}

/** Thousandths of a CPU: 1500 → "1.5" */
export function cpus(milli) {
  return trim(milli / 1000);
}

function trim(number) {
  return number >= 100 ? Math.round(number).toLocaleString("en") : String(Math.round(number * 100) / 100);
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function percent(share) {
  return share === null ? "–" : `${Math.round(share * 100)}%`;
}

export function money(perHour) {
  return perHour.toLocaleString("en", {minimumFractionDigits: 2, maximumFractionDigits: perHour < 1 ? 4 : 2});
}

/** How long ago, in two letters or so: 125 s → "2m5s", as kubectl has it. */
export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s}s`;
  if (s < 600) return s % 60 ? `${Math.floor(s / 60)}m${s % 60}s` : `${s / 60}m`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

/** 14:03:07, on the user's own clock; with the day where it is not today. */
export function clock(at) {
  const moment = new Date(at * 1000);
  const time = moment.toLocaleTimeString("en-GB");
  return moment.toDateString() === new Date().toDateString() ? time : `${moment.toLocaleDateString("en-CA")} ${time}`;
}

/** The name of an object without its namespace. */
export function bare(key) {
  return key.slice(key.lastIndexOf("/") + 1);
}

export function namespaceOf(key) {
  const at = key.indexOf("/");
  return at < 0 ? "" : key.slice(0, at);
}

/** What all names begin and end with, where that is long enough to be worth leaving out: [head, tail] in letters. */
export function shared(names) {
  if (names.length < 2) return [0, 0];
  const first = names[0];
  let head = first.length;
  let tail = first.length;
  for (const name of names) {
    let i = 0;
    while (i < head && i < name.length && name[i] === first[i]) i += 1;
    head = i;
    let j = 0;
    while (j < tail && j < name.length - head && j < first.length - head && name[name.length - 1 - j] === first[first.length - 1 - j]) j += 1;
    tail = j;
  }
  // Numbers and words are not cut apart.
  while (head > 0 && /[a-z0-9]/i.test(first[head - 1])) head -= 1;
  while (tail > 0 && /[a-z0-9]/i.test(first[first.length - tail])) tail -= 1;
  return [head >= 6 ? head : 0, tail >= 6 ? tail : 0];
}

/** A long name cut in its middle: what tells two nodes apart is mostly at the end. */
export function middle(text, most) {
  if (text.length <= most) return text;
  const head = Math.max(1, Math.floor((most - 1) / 3));
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
