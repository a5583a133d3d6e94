// The answer to a what-if as tables: the cluster as it goes on by itself, and with the changes, beside each other.

import {Table} from "./table.js";
import {age, clock, count, money} from "./format.js";
import {h} from "./dom.js";

/** What the difference comes to, in a sentence: [tone, text]. */
export function headlineOf({without: a, with: b}) {
  const more = b.pending - a.pending;
  const evicted = b.evicted - a.evicted;
  const onTheWay = evicted > 0 ? `; ${evicted.toLocaleString("en")} would be evicted on the way` : "";
  if (more > 0) return ["bad", `${count(more, "more pod", "more pods")} would wait for a node${onTheWay}.`];
  const tone = evicted > 0 ? "warn" : "good";
  if (more < 0) return [tone, `${count(-more, "pod")} fewer would wait for a node${onTheWay}.`];
  if (b.pending) return [tone, `${count(b.pending, "pod")} would wait for a node, as many as without this${onTheWay}.`];
  return [tone, `Every pod would have a node${onTheWay}.`];
}

export function answerPanel(found) {
  const {without: a, with: b} = found;
  const numbers = table(NUMBERS, "Both outcomes", [
    line("pods with a node", a.placed, b.placed, {good: true}),
    line("pods without a node", a.pending, b.pending, {good: false}),
    line("evicted", a.evicted, b.evicted, {good: false}),
    line("moved to their tier", a.moved, b.moved),
    line("nodes", a.nodes, b.nodes),
    (a.costPerHour !== null || b.costPerHour !== null) && line("cost per hour", a.costPerHour ?? 0, b.costPerHour ?? 0, {shown: money, digits: 4}),
    {what: "at rest after", a: restOf(a), b: restOf(b), off: "", tone: ""},
  ].filter(Boolean));
  const reasons = reasonsOf(a.waiting, b.waiting);
  const workloads = workloadsOf(a.workloads, b.workloads);
  const refused = Object.entries(b.notDrained ?? {});
  return h("section", {class: "beside", "aria-label": "Both outcomes"},
    numbers,
    reasons.length > 0 && [h("h2", {}, "Why pods wait"), table(REASONS, "Why pods wait", reasons)],
    h("h2", {}, "Workloads that end otherwise"),
    workloads.length ? table(WORKLOADS, "Workloads that end otherwise", workloads) : h("p", {class: "empty"}, "None."),
    refused.length > 0 && [h("h2", {}, "Not drained"), h("ul", {class: "plain"}, refused.map(([pod, why]) => h("li", {}, h("b", {}, pod), `: ${why}`)))],
    h("p", {class: "notes"}, notesOf(found).map((note) => h("small", {}, `${note}. `))));
}

function notesOf({at, components, skipped, unread}) {
  return [
    `The cluster as of ${clock(at)}`,
    components.length ? `Components of Fairlead that acted: ${components.join(", ")}` : "No component of Fairlead acted: the cluster's objects tell of none",
    ...Object.entries(skipped).map(([kind, number]) => `${number} of kind ${kind} were left out`),
    ...Object.entries(unread).map(([kind, why]) => `${kind} not read: ${why}`),
  ];
}

function table(columns, caption, rows) {
  const made = new Table(columns, {caption});
  made.show(rows);
  return made.element;
}

function line(what, a, b, {good = null, shown = (number) => number.toLocaleString("en"), digits = 0} = {}) {
  const off = Number((b - a).toFixed(digits));
  const tone = !off || good === null ? "" : off > 0 === good ? "good-text" : "bad";
  return {what, a: shown(a), b: shown(b), off: off ? `${off > 0 ? "+" : "−"}${shown(Math.abs(off))}` : "", tone};
}

function restOf({after, quiet}) {
  return quiet ? age(after) : `${age(after)}, still changing`;
}

function reasonsOf(a, b) {
  const found = new Map();
  for (const [waiting, side] of [[b, "b"], [a, "a"]]) {
    for (const one of waiting) {
      if (!found.has(one.kind)) found.set(one.kind, {text: one.text, a: 0, b: 0});
      found.get(one.kind)[side] += one.pods;
    }
  }
  return [...found.values()];
}

function workloadsOf(a, b) {
  const found = new Map();
  for (const [shares, side] of [[a, "a"], [b, "b"]]) {
    for (const one of shares) {
      const key = `${one.workload} ${one.revision ?? ""} ${one.tier ?? ""}`;
      if (!found.has(key)) found.set(key, {workload: one.workload, revision: one.revision ?? "", tier: one.tier ?? "", a: NONE, b: NONE});
      found.get(key)[side] = one;
    }
  }
  return [...found.values()]
    .filter((one) => one.a.placed !== one.b.placed || one.a.pending !== one.b.pending || one.b.evicted || one.b.moved)
    .sort((one, other) => other.b.evicted - one.b.evicted || (one.workload + one.tier < other.workload + other.tier ? -1 : 1));
}

/** Namespace and name, and below them what it is: the kind matters less, and a revision is long. */
function workloadCell({workload, revision}) {
  const [namespace, kind, ...name] = workload.split("/");
  return [`${namespace}/${name.join("/")}`, h("small", {}, ` ${kind}${revision ? ` ${revision}` : ""}`)];
}

const NONE = {placed: 0, pending: 0, evicted: 0, moved: 0};
const podsOf = ({placed, pending}) => [placed.toLocaleString("en"), pending > 0 && h("small", {}, ` ${pending.toLocaleString("en")} pending`)];
const goneOf = ({evicted, moved}) => [evicted && `${evicted}`, moved && `${moved} moved`].filter(Boolean).join(", ");

const NUMBERS = [
  {name: "what", label: "", cell: (one) => one.what},
  {name: "a", label: "As it is", number: true, cell: (one) => one.a},
  {name: "b", label: "With this", number: true, cell: (one) => h("b", {}, one.b)},
  {name: "off", label: "Difference", number: true, cell: (one) => (one.off ? h("span", {class: one.tone}, one.off) : "")},
];
const REASONS = [
  {name: "text", label: "Why", cell: (one) => one.text},
  {name: "a", label: "As it is", number: true, cell: (one) => one.a.toLocaleString("en")},
  {name: "b", label: "With this", number: true, cell: (one) => h("b", {}, one.b.toLocaleString("en"))},
];
const WORKLOADS = [
  {name: "workload", label: "Workload", cell: workloadCell},
  {name: "tier", label: "Tier", cell: (one) => one.tier},
  {name: "a", label: "As it is", number: true, cell: (one) => podsOf(one.a)},
  {name: "b", label: "With this", number: true, cell: (one) => h("b", {}, podsOf(one.b))},
  {name: "evicted", label: "Evicted", number: true, cell: (one) => goneOf(one.b)},
];
