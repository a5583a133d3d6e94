// Placement policies: where the rule wants pods and where they are, tier by tier and group by group.

import {Table} from "./table.js";
import {address} from "./links.js";
import {clock, count} from "./format.js";
import {documentView} from "./documents.js";
import {fill, h} from "./dom.js";
import {lineRow} from "./lines.js";

const MOVES_SHOWN = 20;

export const PoliciesView = documentView({
  documents: ["policies"],
  title: "Policies",
  make(view) {
    view.list = h("div");
    return [view.list];
  },
  show(view, [found]) {
    const open = new Set([...view.list.querySelectorAll("details[open]")].map((one) => one.dataset.policy));
    const chosen = view.app.place.query.policy;
    if (chosen) open.add(chosen);
    if (!found.policies.length) {
      fill(view.list, h("p", {class: "empty"}, "There are no placement policies. One is an ordered list of tiers of nodes, each with a min and a max: ", h("code", {}, "fairlead policy --help"), "."));
      return;
    }
    const lines = view.board.lines.filter((line) => ["moved", "marked", "unmarked"].includes(line.kind)).slice(-MOVES_SHOWN).reverse();
    fill(view.list, found.policies.map((policy) => card(policy, open.has(policy.name))),
      h("section", {}, h("h2", {}, "Moves and marks"),
        lines.length ? h("ul", {class: "lines"}, lines.map((line) => lineRow(line))) : h("p", {class: "empty"}, "Nothing was moved, and no tier was marked, since this page is open.")));
  },
});

function card(policy, open) {
  const marks = new Map(policy.marks.map((mark) => [mark.tier, mark]));
  const most = Math.max(1, ...policy.tiers.map((tier) => Math.max(tier.desired, tier.actual + tier.pending)));
  const table = new Table(GROUPS(policy), {caption: `Groups of policy ${policy.name}`, empty: "No pods."});
  table.show(policy.list);
  return h("section", {class: "panel"},
    h("h2", {}, policy.name),
    h("p", {}, `${count(policy.pods, "pod")} in ${count(policy.groups, "group")}; `, standing(policy), "."),
    h("p", {}, h("small", {}, "Bars: pods that are there; hatched: on their way; the line: how many the rule wants.")),
    h("ul", {class: "tiers"}, policy.tiers.map((tier) => {
      const mark = marks.get(tier.name);
      return h("li", {},
        h("a", {class: "tier-name", href: address({view: "map", query: {by: `tier:${policy.name}`}})}, tier.name),
        h("span", {class: "tier-bar", role: "img", "aria-label": `${tier.actual} of ${tier.desired} pods, ${tier.pending} on their way`},
          h("span", {class: "actual", style: {width: `${(tier.actual / most) * 100}%`}}),
          h("span", {class: "coming", style: {width: `${(tier.pending / most) * 100}%`}}),
          h("span", {class: "wanted", style: {left: `${(tier.desired / most) * 100}%`}})),
        h("span", {class: "tier-text"}, `${tier.actual} of ${tier.desired}`, tier.pending ? `, ${tier.pending} waiting` : "", ` · ${count(tier.fill.nodes, "node")}`),
        mark && h("span", {class: "marked"}, `left alone until ${clock(mark.until)}${mark.reason ? `: ${mark.reason}` : ""}`));
    })),
    h("details", {open, "data-policy": policy.name}, h("summary", {}, `Groups${policy.groups > policy.list.length ? `, the ${policy.list.length} that are most off` : ""}`), table.element));
}

/** How what is compares with what the rule wants. */
function standing(policy) {
  const wanted = policy.tiers.reduce((sum, tier) => sum + tier.desired, 0);
  const coming = policy.tiers.reduce((sum, tier) => sum + tier.pending, 0);
  const there = policy.tiers.reduce((sum, tier) => sum + tier.actual, 0);
  const without = Math.max(0, wanted - there - policy.misplaced);
  const parts = [];
  if (policy.misplaced) parts.push(h("b", {class: "warn-text"}, `${policy.misplaced} not in the tier where the rule wants ${policy.misplaced === 1 ? "it" : "them"}`));
  if (without || coming) parts.push(parts.length ? ", " : "", h("b", {class: "warn-text"}, `${Math.max(without, coming)} without a node`));
  return parts.length ? parts : "all in the tier where the rule wants them";
}

const GROUPS = (policy) => [
  {name: "name", label: "Group", of: (group) => group.name, cell: (group) => group.name.replace(`${policy.name}: `, "")},
  {name: "pods", label: "Pods", number: true, of: (group) => group.pods, cell: (group) => String(group.pods)},
  ...policy.tiers.map((tier) => ({name: `tier-${tier.name}`, label: `${tier.name}, is / wanted`, number: true, of: (group) => group.actual[tier.name] ?? 0,
    cell: (group) => h("span", {class: group.actual[tier.name] === group.desired[tier.name] ? "" : "warn-text"}, `${group.actual[tier.name] ?? 0} / ${group.desired[tier.name] ?? 0}`)})),
  {name: "elsewhere", label: "Elsewhere", number: true, of: (group) => group.elsewhere, cell: (group) => String(group.elsewhere)},
  {name: "misplaced", label: "To move", number: true, of: (group) => group.misplaced, cell: (group) => String(group.misplaced)},
];
