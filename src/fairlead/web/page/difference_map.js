// The map of a what-if: each node as it would be with the changes, with the pods that come, and those that go.

import {BECOMES, DifferenceColours} from "./colours.js";
import {Canvas} from "./canvas.js";
import {SECTIONS, layOut, sectionsOf} from "./layout.js";
import {Table} from "./table.js";
import {NODE, POD, row} from "./board.js";
import {announce, fill, h, oncePerFrame} from "./dom.js";
import {count, middle} from "./format.js";
import {podLink} from "./links.js";

const MARKS = {added: "new", gone: "gone", cordoned: "cordoned"};
const MANY = 60; // nodes, of which at first only those that differ are shown
const LEFT = ["evicted", "moved", "goes"];
const WAITING_SHOWN = 60;

/** What the server says as nodes with their pods: {nodes, waiting, counts}. */
export function differenceOf({nodes, marks, pods}) {
  const found = new Map();
  for (const values of nodes) {
    const node = row(NODE, values);
    found.set(node.name, {...node, mark: marks[node.name] ?? "", pods: new Map(), counts: {}});
  }
  const waiting = [];
  const counts = {};
  for (const [becomes, rows] of Object.entries(pods)) {
    for (const values of rows) {
      const pod = row(POD, values);
      if (!pod.node) {
        waiting.push({...pod, isNew: becomes === "comes"});
        continue;
      }
      const {sign, state, rank} = BECOMES[becomes];
      const node = found.get(pod.node);
      if (!node) continue; // its node went before it
      // A pod that comes has a name of the copy's own: its workload says more.
      const key = becomes === "comes" ? pod.workload || pod.key : pod.key;
      node.pods.set(`${becomes} ${pod.key}`, {...pod, key, becomes, sign, state, rank});
      node.counts[becomes] = (node.counts[becomes] ?? 0) + 1;
      counts[becomes] = (counts[becomes] ?? 0) + 1;
    }
  }
  return {nodes: found, waiting, counts};
}

export class DifferenceMap {
  constructor(said) {
    this.difference = differenceOf(said);
    this.colours = new DifferenceColours();
    this.canvas = new Canvas({chosen: (name) => this.choose(name), opened: (name) => this.open(name), hovered: (...at) => this.hover(...at)});
    this.tip = h("div", {class: "tip", hidden: true, role: "presentation"});
    this.held = h("div", {class: "map-held"}, this.canvas.element, this.tip);
    this.by = h("select", {id: "whatif-by", onchange: () => this.relayout()}, [["group", "node group"], ["zone", "zone"], ["", "nothing"]].map(([value, label]) => h("option", {value}, label)));
    const nodes = [...this.difference.nodes.values()];
    this.by.value = nodes.some((node) => node.group) ? "group" : nodes.some((node) => node.zone) ? "zone" : "";
    this.differing = nodes.filter((node) => node.mark || Object.keys(node.counts).some((one) => one !== "stays"));
    this.only = h("button", {type: "button", class: "toggle", onclick: () => this.press(this.only)}, "Only what differs");
    this.only.setAttribute("aria-pressed", String(nodes.length > MANY && this.differing.length > 0));
    this.asTable = h("button", {type: "button", class: "toggle", "aria-pressed": "false", onclick: () => this.press(this.asTable)}, "Table");
    this.table = new Table(COLUMNS, {caption: "Nodes with the changes", empty: "Every node is as it would be without the changes."});
    this.none = h("p", {class: "empty"}, "Every node is as it would be without the changes.");
    this.legend = h("ul", {class: "legend", "aria-label": "What becomes of pods"});
    this.side = h("section", {class: "panel chosen", hidden: true, "aria-label": "Node"});
    this.element = h("section", {class: "difference", "aria-label": "Map of the difference"},
      h("div", {class: "controls"}, h("span", {class: "field"}, h("label", {for: "whatif-by"}, "Group by "), this.by), this.only, this.asTable),
      this.legend, this.tray(), this.none, this.held, this.table.element, this.side);
    this.frame = oncePerFrame(() => this.draw());
    this.resized = new ResizeObserver(() => this.relayout());
    this.resized.observe(this.element);
    this.showLegend();
    this.relayout();
  }

  showLegend() {
    const {counts} = this.difference;
    fill(this.legend, Object.entries(BECOMES).filter(([becomes]) => counts[becomes]).map(([becomes, {sign, label}]) => h("li", {class: "chip"},
      h("span", {class: `swatch ${BECOMES[becomes].state}`, style: {"--swatch": this.colours.colour({becomes})}, "aria-hidden": "true"}),
      sign && `${sign} `, label, h("span", {class: "amount"}, counts[becomes].toLocaleString("en")))));
  }

  /** The pods that have no node at the end. */
  tray() {
    const {waiting} = this.difference;
    const together = new Map();
    for (const pod of waiting) {
      const name = `${pod.isNew ? "+ " : ""}${pod.gang ? `gang ${pod.gang}` : pod.workload || pod.key}`;
      together.set(name, (together.get(name) ?? 0) + 1);
    }
    const shown = [...together].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, WAITING_SHOWN);
    return h("section", {class: "tray", hidden: !waiting.length, "aria-label": "Pods that would wait for a node"},
      h("h3", {}, `${count(waiting.length, "pod")} without a node, + only with the changes`),
      h("div", {class: "cells"}, shown.map(([name, pods]) => h("span", {class: "cell"}, middle(name, 40), pods > 1 && h("b", {}, ` ×${pods}`))),
        together.size > shown.length && h("span", {class: "cell more"}, `and ${together.size - shown.length} more`)));
  }

  shown() {
    return this.isPressed(this.only) ? this.differing : [...this.difference.nodes.values()];
  }

  isPressed(button) {
    return button.getAttribute("aria-pressed") === "true";
  }

  press(button) {
    button.setAttribute("aria-pressed", String(!this.isPressed(button)));
    this.relayout();
  }

  relayout() {
    this.made = false;
    this.frame();
  }

  draw() {
    const nodes = this.shown();
    const asTable = this.isPressed(this.asTable);
    this.none.hidden = nodes.length > 0;
    this.held.hidden = asTable || !nodes.length;
    this.table.element.hidden = !asTable || !nodes.length;
    if (asTable) this.table.show(nodes);
    const width = Math.floor(this.held.clientWidth);
    if (this.held.hidden || !width || (this.made && this.width === width)) return;
    this.made = true;
    this.width = width;
    const made = layOut(sectionsOf(nodes, ...SECTIONS[this.by.value]), width, Math.max(360, innerHeight - 240));
    this.canvas.show(this.difference, made, this.colours, null);
  }

  choose(name) {
    this.canvas.select(name);
    const node = this.difference.nodes.get(name);
    if (node) announce(`${name}: ${saidOf(node)}`);
  }

  open(name) {
    this.choose(name);
    const node = this.difference.nodes.get(name);
    this.side.hidden = !node;
    if (!node) return;
    const pods = [...node.pods.values()].sort((a, b) => a.rank - b.rank || (a.key < b.key ? -1 : 1));
    fill(this.side, h("button", {type: "button", class: "close", "aria-label": "Close", onclick: () => this.close()}, "✕"),
      h("h2", {}, name), h("p", {}, saidOf(node)),
      h("ul", {class: "pods"}, pods.map((pod) => h("li", {},
        h("span", {class: `swatch ${pod.state}`, style: {"--swatch": this.colours.colour(pod)}, "aria-hidden": "true"}),
        pod.becomes === "comes" ? pod.key : podLink(pod.key, pod.key),
        h("small", {}, [`${pod.sign} ${BECOMES[pod.becomes].label}`.trim(), `priority ${pod.priority}`].join(" · "))))));
    this.side.scrollIntoView({block: "nearest"});
  }

  close() {
    this.side.hidden = true;
    this.canvas.select("");
    this.canvas.over.focus();
  }

  hover(name, x, y, pod) {
    const node = this.difference.nodes.get(name);
    this.tip.hidden = !node;
    if (!node) return;
    fill(this.tip, h("b", {}, name), h("br"), saidOf(node),
      pod && [h("br"), h("span", {class: `swatch ${pod.state}`, style: {"--swatch": this.colours.colour(pod)}}), `${pod.key}: ${BECOMES[pod.becomes].label}`]);
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, this.held.clientWidth - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y + 18}px`;
  }

  theme() {
    this.colours.refresh();
    this.showLegend();
    this.relayout();
  }

  stop() {
    this.resized.disconnect();
    this.canvas.stop();
  }
}

/** A node in words: ``gone; 2 evicted``. */
function saidOf(node) {
  const {comes = 0, stays = 0} = node.counts;
  const left = LEFT.filter((one) => node.counts[one]).map((one) => `${node.counts[one]} ${BECOMES[one].label}`);
  const pods = [comes && `${comes} ${comes === 1 ? "comes" : "come"}`, ...left, stays && `${stays} ${stays === 1 ? "stays" : "stay"}`].filter(Boolean).join(", ");
  return [MARKS[node.mark], pods || "no pods"].filter(Boolean).join("; ");
}

const amount = (of) => ({number: true, of, cell: (node) => String(of(node) || "")});
const COLUMNS = [
  {name: "name", label: "Node", of: (node) => node.name, cell: (node) => node.name},
  {name: "mark", label: "What", of: (node) => node.mark, cell: (node) => MARKS[node.mark] ?? ""},
  {name: "group", label: "Group", of: (node) => node.group, cell: (node) => node.group},
  {name: "zone", label: "Zone", of: (node) => node.zone, cell: (node) => node.zone},
  {name: "comes", label: "Come", ...amount((node) => node.counts.comes ?? 0)},
  {name: "left", label: "Go", ...amount((node) => LEFT.reduce((sum, one) => sum + (node.counts[one] ?? 0), 0))},
  {name: "stays", label: "Stay", ...amount((node) => node.counts.stays ?? 0)},
];
