// One line of what happened, wherever it is shown.

import {clock} from "./format.js";
import {address, gangLink, nodeLink, podLink, policyLink} from "./links.js";
import {h} from "./dom.js";

/** Kinds, in the order in which filters show them: what they are called, and their tone. */
export const KINDS = {
  placed: ["placed", "good"], held: ["held", "warn"], waits: ["waits", "warn"], preempted: ["preempted", "odd"], moved: ["moved", "odd"],
  evicted: ["evicted", "odd"], released: ["released", "bad"], created: ["created", ""], runs: ["runs", "good"], leaves: ["leaves", ""],
  ended: ["finished", ""], gone: ["gone", ""], "scale-up": ["scale-up", "good"], "node-ready": ["node ready", "good"], "node-lost": ["node lost", "bad"],
  "node-gone": ["node gone", ""], marked: ["tier marked", "warn"], unmarked: ["tier used", "good"], chapter: ["chapter", "odd"],
};
export const DECISIONS = ["placed", "held", "waits", "preempted", "moved", "evicted", "released", "scale-up", "marked", "unmarked", "node-lost"];

const NODES = ["node-ready", "node-lost", "node-gone"];
const POLICIES = ["marked", "unmarked"];

/** Lines of which several members of a gang say the same, as one; each has `more`, the number of others. */
export function gathered(lines) {
  const found = [];
  for (const line of lines) {
    const last = found[found.length - 1];
    if (last && line.gang && last.gang === line.gang && last.kind === line.kind && last.text === line.text && last.at - line.at < 5) last.more += 1;
    else found.push({...line, more: 0});
  }
  return found;
}

/** What an address says of a line: its number, and when it was, because numbers begin again with the server. */
export function nameOf(line) {
  return `${line.number}-${Math.round(line.at)}`;
}

/** `chosen` is the name of the line that an address leads to. */
export function lineRow(line, chosen = "") {
  const [label, tone] = KINDS[line.kind] ?? [line.kind, ""];
  const name = nameOf(line);
  const time = h("time", {}, h("a", {href: address({view: "decisions", query: {line: name}}), title: "Link to this line"}, clock(line.at)));
  const on = name === chosen;
  if (line.kind === "chapter") return h("li", {class: `line chapter${on ? " chosen" : ""}`, "aria-current": on && "true"}, time, h("p", {}, line.text));
  return h("li", {class: `line${on ? " chosen" : ""}`, "aria-current": on && "true"},
    time, h("span", {class: `kind ${tone}`}, label), h("span", {class: "about"}, about(line)),
    h("span", {class: "text"}, withLinks(line)));
}

function about(line) {
  if (NODES.includes(line.kind)) return nodeLink(line.about);
  if (POLICIES.includes(line.kind)) return policyLink(line.about);
  if (line.more) return ["gang ", gangLink(line.gang), h("small", {}, ` ${line.more + 1} pods`)];
  return [podLink(line.about, line.about), line.gang && [" ", h("small", {}, "gang ", gangLink(line.gang))]];
}

/** The text, with the node and the pod that it speaks of as links. */
function withLinks(line) {
  const parts = [line.text];
  const pod = line.by && line.by.includes("/") && !line.by.startsWith("gang ") ? line.by : "";
  const gang = line.by.startsWith("gang ") ? line.by.slice(5) : "";
  for (const [word, link] of [[pod, () => podLink(pod, pod)], [gang, () => ["gang ", gangLink(gang)]], [NODES.includes(line.kind) ? "" : line.node, () => nodeLink(line.node)]]) {
    if (!word) continue;
    for (let i = 0; i < parts.length; i += 1) {
      if (typeof parts[i] !== "string") continue;
      const at = parts[i].lastIndexOf(word);
      if (at < 0) continue;
      parts.splice(i, 1, parts[i].slice(0, at), link(), parts[i].slice(at + word.length));
      break;
    }
  }
  return parts;
}
