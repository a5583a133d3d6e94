// The overview: what the cluster has, how full it is, what waits and why, what it costs, who leads.

import {bar} from "./table.js";
import {address} from "./links.js";
import {age, bytes, count, cpus, money, percent} from "./format.js";
import {fill, h} from "./dom.js";

const REASONS = 2;
const SHORT = 20; // letters of a note that fit a line

export class Strip {
  constructor(element) {
    this.element = element;
  }

  show(board) {
    const {sums, nodes, waiting, answers} = board;
    fill(this.element,
      nodeCard(nodes.size, sums),
      full("CPU", sums.usedCpu, sums.cpu, cpus),
      full("Memory", sums.usedMemory, sums.memory, bytes),
      this.pending(waiting, answers),
      cost(sums, nodes.size),
      card("Spot", [sums.placed ? percent(sums.onSpot / sums.placed) : "–"], `of pods, on ${count(sums.spot, "node")}`),
      leader(answers, board.at));
  }

  pending(waiting, answers) {
    const number = waiting.size;
    const reasons = (answers?.waiting ?? []).slice(0, REASONS);
    const more = (answers?.reasons ?? 0) - reasons.length;
    return h("a", {class: `card wide${number ? " warn" : ""}`, href: address({view: "queue"})},
      h("span", {class: "card-label"}, "Waiting"),
      h("span", {class: "card-value"}, number.toLocaleString("en"), h("small", {}, number === 1 ? " pod" : " pods")),
      number === 0
        ? h("span", {class: "card-note"}, "every pod has a node")
        : h("ul", {class: "reasons"},
            reasons.map((one) => h("li", {title: one.text}, h("b", {}, one.pods.toLocaleString("en")), ` ${short(one.text)}`)),
            more > 0 && h("li", {}, `and ${count(more, "more reason", "more reasons")}`)));
  }
}

/** A reason with what keeps it off most nodes first, and without the number of all nodes: there is little room. */
function short(text) {
  const found = /^0\/\d+ nodes are available: (.*?)\.( |$)/.exec(text);
  if (!found) return text;
  const clauses = found[1].split(/, (?=\d)/);
  return clauses.sort((a, b) => parseInt(b, 10) - parseInt(a, 10)).join(", ");
}

function card(label, value, note, tone = "") {
  return h("div", {class: `card${tone ? ` ${tone}` : ""}`},
    h("span", {class: "card-label"}, label),
    h("span", {class: "card-value"}, value),
    h("span", {class: `card-note${note.length > SHORT ? " two" : ""}`}, note));
}

function nodeCard(number, {ready, cordoned}) {
  const missing = number - ready - cordoned;
  const said = [missing && `${missing} not ready`, cordoned && `${cordoned} cordoned`].filter(Boolean).join(", ");
  return card("Nodes", [number.toLocaleString("en")], said || "all ready", missing && "bad");
}

function full(label, used, has, shown) {
  const share = has ? used / has : null;
  return h("div", {class: "card"},
    h("span", {class: "card-label"}, label),
    h("span", {class: "card-value"}, percent(share)),
    bar(share, `${shown(used)} of ${shown(has)}`));
}

function cost(sums, nodes) {
  if (!nodes || sums.unpriced === nodes) return card("Cost", ["–"], "no node has a price");
  const note = sums.unpriced ? `per hour; ${count(sums.unpriced, "node")} without a price` : "per hour";
  return card("Cost", [money(Math.max(0, sums.price))], note);
}

function leader(answers, now) {
  const one = answers?.leader;
  if (!one) return card("Scheduler", ["…"], "being asked");
  const runs = one.runs === true ? "runs" : one.runs === false ? "away" : "not known";
  const note = one.holder ? `${one.holder}${one.since ? `, for ${age(now - one.since)}` : ""}` : one.why || `${one.name}: no lease tells`;
  return h("div", {class: `card${one.runs === false ? " bad" : ""}`},
    h("span", {class: "card-label"}, `Scheduler ${one.name}`),
    h("span", {class: "card-value word"}, runs),
    h("span", {class: "card-note", title: note}, note));
}
