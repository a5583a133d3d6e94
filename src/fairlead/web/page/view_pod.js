// One pod: why it is where it is or has no node, on which rule each node fails, what would help, what happened.

import {address, gangLink, nodeLink, podLink, policyLink} from "./links.js";
import {age, clock, count} from "./format.js";
import {documentView} from "./documents.js";
import {fill, h} from "./dom.js";
import {lineRow} from "./lines.js";

const COLUMNS = 40; // nodes of which a matrix is drawn one by one
const EXAMPLES = 4;
// Why a policy chose the tier, where it has no words of its own for it.
const WHY = {
  placed: "The tier is that of its node.", rule: "The slot's own tier, by the rule.", single: "The tier for single replicas.", min: "Its own tier, although that is left alone: this min does not fall back.",
  fallback: "Another tier than its own, which is left alone for now.", stuck: "Its own tier, although that is left alone: no other has room.", full: "Every tier has reached its max.",
  beyond: "Every tier has reached its max, and the pod could not be moved later.",
};

export const PodView = documentView({
  documents: (app) => {
    const [namespace = "", name = ""] = app.place.path;
    const key = `${namespace}/${name}`;
    return [`api/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, `api/lines?about=${encodeURIComponent(key)}`];
  },
  title: (app) => app.place.path.join("/"),
  make(view) {
    view.parts = h("div");
    return [view.parts];
  },
  show(view, [pod, {lines}]) {
    const row = view.board.pods.get(pod.pod);
    fill(view.parts,
      h("p", {class: `headline ${pod.state === "pending" ? "warn" : pod.state === "unusable" ? "bad" : "good"}`}, pod.headline),
      h("div", {class: "columns"},
        h("section", {class: "panel"}, h("h2", {}, "The pod"), h("dl", {class: "facts"},
          fact("State", `${pod.state}${pod.since ? `, for ${age(pod.at - pod.since)}` : ""}`),
          pod.node && fact("Node", nodeLink(pod.node)),
          row && fact("Priority", String(row.priority)),
          row?.workload && fact("Workload", row.workload),
          fact("Scheduler", scheduler(pod.scheduler)),
          pod.gates?.length > 0 && fact("Gates", pod.gates.join(", ")),
          pod.queue && fact("In the queue", queued(pod.queue)),
          pod.bestNode && pod.bestNode !== pod.node && fact("Best node now", nodeLink(pod.bestNode)))),
        help(pod), gang(pod.gang), policy(pod.policy)),
      matrix(pod),
      notes(pod),
      h("section", {}, h("h2", {}, "What happened"),
        lines.length ? h("ol", {class: "lines"}, lines.map((values) => lineRow(line(values))).reverse()) : h("p", {class: "empty"}, "Nothing is remembered of it.")));
  },
});

const FIELDS = ["number", "at", "kind", "about", "text", "node", "gang", "by"];

function line(values) {
  return Object.fromEntries(FIELDS.map((field, i) => [field, values[i]]));
}

function scheduler(one) {
  if (!one) return "–";
  const runs = one.runs === true ? "runs" : one.runs === false ? "does not run" : "is not known to run";
  return [one.name, h("small", {}, ` ${runs}${one.why ? `: ${one.why}` : ""}`)];
}

function queued(queue) {
  const held = queue.heldBackBy.slice(0, EXAMPLES);
  return [queue.position ? `number ${queue.position} of those that can be tried` : "not tried for now",
    held.length > 0 && h("small", {}, "; would fit without ", held.map((pod, i) => [i ? ", " : "", podLink(pod, pod)]), queue.heldBackBy.length > held.length && " and others")];
}

function help(pod) {
  if (pod.state !== "pending" && !pod.suggestions?.length) return null;
  return h("section", {class: "panel"}, h("h2", {}, "What would help"),
    pod.suggestions?.length ? h("ul", {class: "helps"}, pod.suggestions.map((one) => h("li", {}, one)))
      : h("p", {class: "empty"}, pod.cause ? "No single change was found that gives it a node." : "It needs no help."));
}

function gang(one) {
  if (!one) return null;
  return h("section", {class: "panel"}, h("h2", {}, "Gang ", gangLink(one.name)),
    h("p", {}, `${one.present} of ${one.minimum} members are there, ${one.running} with a node.`, one.waitsFor && ` It waits: ${one.waitsFor}.`),
    h("ul", {class: "pods members"}, one.members.map((each) => h("li", {}, podLink(each.pod, each.pod), h("small", {}, each.node ? ["on ", nodeLink(each.node)] : "without a node")))));
}

function policy(one) {
  if (!one) return null;
  return h("section", {class: "panel"}, h("h2", {}, "Policy ", policyLink(one.policy)),
    h("dl", {class: "facts"}, one.tier && fact("Tier", h("a", {href: address({view: "map", query: {by: `tier:${one.policy}`}})}, one.tier)), one.slot > 0 && fact("Slot", String(one.slot))),
    h("p", {}, one.words || WHY[one.why] || one.why), one.marks.map((mark) => h("p", {class: "marked"}, `tier ${mark.tier} is left alone until ${clock(mark.until)}${mark.reason ? `: ${mark.reason}` : ""}`)));
}

function notes(pod) {
  const all = [...(pod.unknown ?? []).map((one) => `cannot be known: ${one}`), ...(pod.notes ?? [])];
  return all.length > 0 && h("section", {}, h("h2", {}, "Notes"), h("ul", {}, all.map((one) => h("li", {}, one))));
}

/** Node by rule: how far the pod gets on each node. Many nodes are counted instead of drawn. */
function matrix(pod) {
  if (!pod.rules) return null;
  const refused = Object.keys(pod.rules);
  const nodes = [...pod.feasible, ...refused];
  if (!nodes.length) return null;
  const order = pod.ruleOrder ?? [];
  const used = order.filter((rule) => refused.some((node) => pod.rules[node] === rule));
  for (const node of refused) if (!used.includes(pod.rules[node])) used.push(pod.rules[node]);
  const summary = h("p", {}, pod.message ?? `It fits on ${count(pod.feasible.length, "node")} of ${nodes.length}.`);
  const table = nodes.length <= COLUMNS ? drawn(pod, nodes, used) : counted(pod, nodes, used);
  return h("section", {}, h("h2", {}, "Nodes and rules"), summary, h("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Nodes and rules"}, table));
}

function drawn(pod, nodes, used) {
  return h("table", {class: "matrix"}, h("caption", {class: "unseen"}, "How far the pod gets on each node, rule by rule"),
    h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "Node"), used.map((rule) => h("th", {scope: "col"}, rule)), h("th", {scope: "col"}, "Why not"))),
    h("tbody", {}, nodes.map((node) => {
      const at = pod.rules[node] ? used.indexOf(pod.rules[node]) : used.length;
      return h("tr", {}, h("th", {scope: "row"}, nodeLink(node)),
        used.map((_, i) => (i < at ? cell("✓", "passes", "good") : i === at ? cell("✕", "refused", "bad") : cell("·", "not reached", ""))),
        h("td", {}, pod.reasons[node]?.join(", ") ?? h("b", {class: "good-text"}, "fits")));
    })));
}

function cell(sign, said, tone) {
  return h("td", {class: `verdict ${tone}`}, h("span", {"aria-hidden": "true"}, sign), h("span", {class: "unseen"}, said));
}

function counted(pod, nodes, used) {
  const by = new Map();
  for (const node of Object.keys(pod.rules)) {
    const name = `${pod.rules[node]}\n${(pod.reasons[node] ?? []).join(", ")}`;
    if (!by.has(name)) by.set(name, []);
    by.get(name).push(node);
  }
  const rows = [...by.entries()].sort((a, b) => used.indexOf(a[0].split("\n")[0]) - used.indexOf(b[0].split("\n")[0]) || b[1].length - a[1].length);
  return h("table", {}, h("caption", {class: "unseen"}, "Nodes by the rule that refuses the pod"),
    h("thead", {}, h("tr", {}, ["Rule", "Why not", "Nodes", "For example"].map((one) => h("th", {scope: "col"}, one)))),
    h("tbody", {}, rows.map(([name, some]) => {
      const [rule, why] = name.split("\n");
      return h("tr", {}, h("th", {scope: "row"}, rule), h("td", {}, why), h("td", {class: "number"}, some.length.toLocaleString("en")), h("td", {}, some.slice(0, EXAMPLES).map((node, i) => [i ? ", " : "", nodeLink(node)])));
    }), pod.feasible.length > 0 && h("tr", {}, h("th", {scope: "row"}, "none"), h("td", {}, h("b", {class: "good-text"}, "fits")), h("td", {class: "number"}, pod.feasible.length.toLocaleString("en")), h("td", {}, pod.feasible.slice(0, EXAMPLES).map((node, i) => [i ? ", " : "", nodeLink(node)])))));
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}
