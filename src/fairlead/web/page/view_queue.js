// The queue, in the order in which units are tried, and every gang: how much of it is there, and what it waits for.

import {Table, bar} from "./table.js";
import {age, clock, count} from "./format.js";
import {fill, h} from "./dom.js";
import {change, gangLink, nodeLink, podLink} from "./links.js";
import {documentView} from "./documents.js";

const MEMBERS_SHOWN = 12;

export const QueueView = documentView({
  documents: ["queue", "gangs"],
  title: "Queue and gangs",
  make(view) {
    const place = view.app.place.query;
    view.units = new Table(UNITS(view), {caption: "Units that wait, in the order in which they are tried", empty: "Nothing waits for the scheduler."});
    view.gangs = new Table(GANGS(view), {caption: "Gangs", sort: place.sort ?? "", empty: "There are no gangs.", sorted: (sort) => change({sort})});
    view.chosen = h("section", {class: "panel", hidden: true});
    return [view.chosen, h("section", {}, h("h2", {}, "Waiting, in order"), view.units.element),
      h("section", {}, h("h2", {}, "Gangs"), view.gangs.element)];
  },
  show(view, [queue, gangs]) {
    view.now = queue.at;
    view.units.show(queue.units);
    view.gangs.show([...gangs.gangs].sort((a, b) => (b.pending > 0) - (a.pending > 0)));
    const name = view.app.place.query.gang;
    view.chosen.hidden = !name;
    if (name) showGang(view.chosen, name, gangs.gangs.find((one) => one.name === name), queue);
  },
});

function showGang(element, name, gang, queue) {
  if (!gang) {
    fill(element, h("h2", {}, `Gang ${name}`), h("p", {class: "empty"}, "There is no such gang."));
    return;
  }
  const unit = queue.units.find((one) => !isPod(one) && one.unit === name);
  fill(element, h("h2", {}, `Gang ${name}`),
    h("p", {}, whole(gang), gang.waitsFor ? ` It waits: ${gang.waitsFor}.` : ""),
    unit && h("p", {class: "warn-text"}, `Number ${unit.position} in the queue, for ${age(queue.at - unit.since)}: ${unit.why}`),
    h("ul", {class: "pods members"}, gang.members.map((one) => h("li", {}, podLink(one.pod, one.pod), h("small", {}, one.node ? ["on ", nodeLink(one.node)] : "without a node")))));
}

function whole(gang) {
  const there = `${gang.present} of ${gang.minimum} members are there, ${gang.running} with a node.`;
  return gang.started ? `It has started: ${there}` : there;
}

/** Since when the member that waits longest has no node; null: none waits. */
function since(view, gang) {
  const waiting = gang.members.filter((one) => !one.node).map((one) => view.board.pods.get(one.pod)?.since).filter(Boolean);
  return waiting.length ? Math.min(...waiting) : null;
}

function isPod(unit) {
  return unit.pods.length === 1 && unit.unit === unit.pods[0];
}

const UNITS = (view) => [
  {name: "position", label: "#", number: true, cell: (unit) => String(unit.position)},
  {name: "unit", label: "Unit", cell: (unit) => (isPod(unit) ? podLink(unit.unit, unit.unit) : ["gang ", gangLink(unit.unit)])},
  {name: "priority", label: "Priority", number: true, cell: (unit) => String(unit.priority)},
  {name: "pods", label: "Pods", cell: (unit) => (isPod(unit) ? "1" : h("details", {}, h("summary", {}, count(unit.pods.length, "pod")),
    h("ul", {class: "plain"}, unit.pods.slice(0, MEMBERS_SHOWN).map((pod) => h("li", {}, podLink(pod, pod))), unit.pods.length > MEMBERS_SHOWN && h("li", {}, `and ${unit.pods.length - MEMBERS_SHOWN} more`))))},
  {name: "since", label: "Since", number: true, cell: (unit) => h("time", {title: clock(unit.since)}, age(view.now - unit.since))},
  {name: "why", label: "Why it waits", cell: (unit) => h("span", {class: "why"}, unit.why)},
];

const GANGS = (view) => [
  {name: "name", label: "Gang", of: (gang) => gang.name, cell: (gang) => gangLink(gang.name)},
  {name: "present", label: "There", number: true, of: (gang) => gang.present / Math.max(1, gang.minimum), cell: (gang) => bar(gang.present / Math.max(1, gang.minimum), `${gang.present} of ${gang.minimum}`, {good: true})},
  {name: "running", label: "With a node", number: true, of: (gang) => gang.running, cell: (gang) => String(gang.running)},
  {name: "pending", label: "Without", number: true, of: (gang) => gang.pending, cell: (gang) => String(gang.pending)},
  {name: "since", label: "Since", number: true, of: (gang) => since(view, gang) ?? Infinity, cell: (gang) => { const at = since(view, gang); return at ? h("time", {title: clock(at)}, age(view.now - at)) : "–"; }},
  {name: "started", label: "Started", of: (gang) => (gang.started ? 0 : 1), cell: (gang) => (gang.started ? "yes" : "no")},
  {name: "waits", label: "Waits for", of: (gang) => gang.waitsFor, cell: (gang) => gang.waitsFor || (gang.pending && !gang.started ? "room for all of it" : "–")},
];
