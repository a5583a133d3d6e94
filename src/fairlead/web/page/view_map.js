// The cluster map: nodes as boxes by tier, group or zone, filled by their pods; and the same as a table.

import {Canvas} from "./canvas.js";
import {Colours, WAYS} from "./colours.js";
import {Table, bar} from "./table.js";
import {age, bytes, count, cpus, middle, money, percent} from "./format.js";
import {announce, atMostEvery, fill, h, oncePerFrame} from "./dom.js";
import {address, change, gangLink, podAddress, podLink} from "./links.js";
import {fillOf} from "./board.js";
import {SECTIONS, layOut, sectionsOf} from "./layout.js";
import {read} from "./feed.js";

const WAITING_SHOWN = 60;
const TONES = {Ready: "", Cordoned: "warn-text", NotReady: "bad"};

export class MapView {
  constructor(app) {
    this.app = app;
    this.board = app.board;
    this.place = app.place.query;
    this.tiers = {};
    this.colours = new Colours(WAYS[this.place.colour] ? this.place.colour : "priority");
    this.dim = null;
    this.laidOut = -1;
    this.canvas = new Canvas({chosen: (name) => this.choose(name), opened: (name) => this.choose(name, true), hovered: (...at) => this.hover(...at)});
    this.legend = h("ul", {class: "legend", "aria-label": "Colours"});
    this.tray = h("section", {class: "tray", "aria-label": "Pods that wait for a node"});
    this.side = h("aside", {class: "side", hidden: true, "aria-label": "Node"});
    this.tip = h("div", {class: "tip", hidden: true, role: "presentation"});
    this.groups = h("select", {id: "by", onchange: (event) => this.regroup(event.target.value)});
    this.ways = h("select", {id: "colour", onchange: (event) => this.recolour(event.target.value)},
      Object.entries(WAYS).map(([name, way]) => h("option", {value: name}, way.label)));
    this.ways.value = this.colours.way;
    this.asTable = h("button", {type: "button", class: "toggle", "aria-pressed": "false", onclick: () => this.toggle()}, "Table");
    this.table = new Table(COLUMNS, {caption: "Nodes", sort: this.place.sort ?? "name", empty: "The cluster has no nodes.", sorted: (sort) => change({sort})});
    this.held = h("div", {class: "map-held"}, this.canvas.element, this.tip);
    this.none = h("p", {class: "empty", hidden: true}, "The cluster has no nodes yet. They appear here as they join.");
    this.element = h("div", {class: "view map-view"},
      h("div", {class: "controls"},
        h("h1", {}, "Map"),
        h("span", {class: "field"}, h("label", {for: "by"}, "Group by "), this.groups),
        h("span", {class: "field"}, h("label", {for: "colour"}, "Colour by "), this.ways), this.asTable),
      this.legend, this.tray,
      h("div", {class: "split"}, h("div", {class: "grow"}, this.none, this.held, this.table.element), this.side));
    this.frame = oncePerFrame(() => this.draw());
    this.dirty = new Set();
    this.slow = atMostEvery(500, () => this.count());
    this.tables = atMostEvery(1000, () => this.showTable());
    this.resized = new ResizeObserver(() => this.relayout());
  }

  open() {
    this.resized.observe(this.element);
    this.options();
    this.toggle(this.place.table === "1");
    this.colours.recount(this.board.pods.values());
    this.count();
    this.readTiers();
    if (this.place.node) this.choose(this.place.node, true);
  }

  // What to group by

  options() {
    const policies = this.board.answers?.policies ?? Object.keys(this.tiers);
    const names = [["", "nothing"], ["group", "node group"], ["zone", "zone"], ...policies.map((name) => [`tier:${name}`, `tier of ${name}`])];
    const said = JSON.stringify(names);
    if (said !== this.optionsSaid) {
      this.optionsSaid = said;
      fill(this.groups, names.map(([value, label]) => h("option", {value}, label)));
    }
    this.groups.value = this.by();
  }

  by() {
    if (this.place.by !== undefined) return this.place.by;
    for (const node of this.board.nodes.values()) {
      if (node.group) return "group";
      if (node.zone) return "zone";
      return "";
    }
    return "";
  }

  async readTiers() {
    const policies = this.board.answers?.policies ?? [];
    if (!policies.length || this.app.replaying) return;
    try {
      this.tiers = (await read("api/tiers")).tiers;
    } catch {
      return; // the feed says what is wrong
    }
    this.options();
    if (this.by().startsWith("tier:")) this.relayout();
  }

  sections() {
    const by = this.by();
    const policy = by.startsWith("tier:") ? this.tiers[by.slice(5)] : null;
    const nodes = this.board.nodes.values();
    if (policy) return sectionsOf(nodes, ({name}) => policy.tiers[policy.of[name]] ?? "", "no tier", [...policy.tiers, ""]);
    return sectionsOf(nodes, ...SECTIONS[by] ?? SECTIONS[""]);
  }

  // Drawing

  relayout() {
    this.laidOut = -1;
    this.frame();
  }

  draw() {
    if (!this.canvas.made && this.laidOut !== -1) return;
    const hasNodes = this.board.nodes.size > 0;
    this.none.hidden = hasNodes;
    if (this.place.table === "1") return;
    const width = Math.floor(this.held.clientWidth);
    if (!width) return;
    if (this.laidOut !== this.board.layout || this.width !== width) {
      this.laidOut = this.board.layout;
      this.width = width;
      const top = this.held.getBoundingClientRect().top + scrollY;
      const made = layOut(this.sections(), width, Math.max(320, innerHeight - top - 24));
      this.canvas.show(this.board, made, this.colours, this.dim);
    } else if (this.dirty.size) {
      this.canvas.paint(this.dirty, this.flash);
    }
    this.dirty.clear();
  }

  update(change) {
    if (change.answers) {
      this.options();
      this.readTiers();
      return;
    }
    this.flash = !change.whole;
    for (const name of change.dirty) this.dirty.add(name);
    if (change.whole) this.relayout();
    this.frame();
    this.slow();
  }

  /** What need not be exact within the frame: legend, the pods that wait, the chosen node, the table. */
  count() {
    if (this.colours.recount(this.board.pods.values())) this.relayout();
    fill(this.legend, this.colours.legend().map((one) => h("li", {},
      h("button", {type: "button", class: "chip", "aria-pressed": String(this.chosenValue === one.value && one.value !== null), disabled: one.value === null,
        onclick: () => this.only(one.value)},
        h("span", {class: "swatch", style: {background: one.colour}, "aria-hidden": "true"}), one.label,
        h("span", {class: "amount"}, one.pods.toLocaleString("en"))))));
    this.showTray();
    this.showSide();
    this.tables();
  }

  showTray() {
    const pods = [...this.board.waiting.values()].sort((a, b) => b.priority - a.priority || a.since - b.since);
    this.tray.hidden = !pods.length;
    const together = new Map(); // those of a gang or a workload wait for the same
    for (const pod of pods) {
      const name = pod.gang ? `gang ${pod.gang}` : pod.workload || pod.key;
      if (!together.has(name)) together.set(name, []);
      together.get(name).push(pod);
    }
    const shown = [...together].slice(0, WAITING_SHOWN);
    fill(this.tray, h("h2", {}, `${count(pods.length, "pod")} without a node`),
      h("div", {class: "cells"}, shown.map(([name, [pod, ...more]]) => h("a", {class: "cell", href: pod.gang ? address({view: "queue", query: {gang: pod.gang}}) : podAddress(pod.key), title: `${pod.key}, priority ${pod.priority}`},
        h("span", {class: "swatch", style: {background: this.colours.colour(pod)}, "aria-hidden": "true"}), middle(name, 40), more.length > 0 && h("b", {}, ` ×${more.length + 1}`))),
        together.size > shown.length && h("span", {class: "cell more"}, `and ${count(together.size - shown.length, "more", "more")}`)));
  }

  only(value) {
    this.chosenValue = this.chosenValue === value ? undefined : value;
    this.dim = this.chosenValue === undefined ? null : (pod) => this.colours.of(pod) === this.chosenValue;
    this.relayout();
    this.count();
  }

  // What is chosen

  regroup(by) {
    this.place.by = by;
    change({by});
    if (by.startsWith("tier:") && !this.tiers[by.slice(5)]) this.readTiers();
    this.relayout();
  }

  recolour(way) {
    this.colours = new Colours(way);
    this.chosenValue = undefined;
    this.dim = null;
    change({colour: way});
    this.count();
    this.relayout();
  }

  toggle(on = this.place.table !== "1") {
    this.place.table = on ? "1" : "";
    change({table: this.place.table});
    this.asTable.setAttribute("aria-pressed", String(on));
    this.held.hidden = on;
    this.table.element.hidden = !on;
    if (on) this.showTable();
    else this.relayout();
  }

  showTable() {
    if (this.place.table === "1") this.table.show([...this.board.nodes.values()]);
  }

  choose(name, opens = false) {
    this.canvas.select(name);
    const node = this.board.nodes.get(name);
    if (node) announce(`${name}: ${node.state}, ${count(node.pods.size, "pod")}, ${percent(fillOf(node))} full`);
    if (opens) {
      this.shown = name;
      change({node: name});
      this.showSide();
    }
  }

  close() {
    this.shown = "";
    change({node: ""});
    this.canvas.select("");
    this.side.hidden = true;
    this.relayout();
    this.canvas.over.focus();
  }

  showSide() {
    const node = this.shown ? this.board.nodes.get(this.shown) : null;
    if (!this.shown) return;
    const opening = this.side.hidden;
    this.side.hidden = false;
    if (opening) this.relayout();
    const button = h("button", {type: "button", class: "close", "aria-label": "Close", onclick: () => this.close()}, "✕");
    if (!node) {
      fill(this.side, button, h("h2", {}, this.shown), h("p", {class: "empty"}, "There is no such node."));
      return;
    }
    const pods = [...node.pods.values()].sort((a, b) => b.priority - a.priority || (a.key < b.key ? -1 : 1));
    fill(this.side, button, h("h2", {}, node.name),
      h("dl", {class: "facts"},
        fact("State", h("span", {class: TONES[node.state]}, node.state)),
        node.group && fact("Group", node.group), node.zone && fact("Zone", node.zone),
        node.kind && fact("Type", node.kind + (node.spot ? ", spot" : "")),
        fact("CPU", bar(node.cpu ? node.usedCpu / node.cpu : null, `${cpus(node.usedCpu)} of ${cpus(node.cpu)}`)),
        fact("Memory", bar(node.memory ? node.usedMemory / node.memory : null, `${bytes(node.usedMemory)} of ${bytes(node.memory)}`)),
        fact("Pods", `${node.pods.size} of ${node.capacity}`),
        node.price !== null && fact("Price", `${money(node.price)} per hour`)),
      h("h3", {}, "Pods"),
      pods.length
        ? h("ul", {class: "pods"}, pods.map((pod) => h("li", {},
            h("span", {class: "swatch", style: {background: this.colours.colour(pod)}, "aria-hidden": "true"}), podLink(pod.key, pod.key),
            h("small", {}, [`priority ${pod.priority}`, pod.state !== "running" && pod.state, `${cpus(pod.cpu)} CPU`, bytes(pod.memory)].filter(Boolean).join(" · "), pod.gang && [" · gang ", gangLink(pod.gang)]))))
        : h("p", {class: "empty"}, "No pods."));
  }

  hover(name, x, y, pod) {
    const node = this.board.nodes.get(name);
    this.tip.hidden = !node;
    if (!node) return;
    fill(this.tip, h("b", {}, name), h("br"),
      `${node.state} · ${count(node.pods.size, "pod")} · CPU ${percent(node.cpu ? node.usedCpu / node.cpu : null)} · memory ${percent(node.memory ? node.usedMemory / node.memory : null)}`,
      pod && [h("br"), h("span", {class: "swatch", style: {background: this.colours.colour(pod)}}), `${pod.key}: ${pod.state} for ${age(this.board.at - pod.since)}, priority ${pod.priority}`, pod.gang && `, gang ${pod.gang}`, pod.exclusive && ", alone on its node"]);
    const room = this.held.clientWidth - this.tip.offsetWidth - 4;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, room))}px`;
    this.tip.style.top = `${y + 18}px`;
  }

  theme() {
    this.colours.refresh();
    this.count();
    this.relayout();
  }

  stop() {
    this.resized.disconnect();
    this.slow.stop();
    this.tables.stop();
    this.canvas.stop();
  }
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

const COLUMNS = [
  {name: "name", label: "Node", of: (node) => node.name, cell: (node) => h("a", {href: `#/map?node=${encodeURIComponent(node.name)}`}, node.name)},
  {name: "state", label: "State", of: (node) => node.state, cell: (node) => h("span", {class: TONES[node.state]}, node.state)},
  {name: "group", label: "Group", of: (node) => node.group, cell: (node) => node.group},
  {name: "zone", label: "Zone", of: (node) => node.zone, cell: (node) => node.zone},
  {name: "kind", label: "Type", of: (node) => node.kind, cell: (node) => node.kind + (node.spot ? " (spot)" : "")},
  {name: "pods", label: "Pods", number: true, of: (node) => node.pods.size, cell: (node) => String(node.pods.size)},
  {name: "cpu", label: "CPU", number: true, of: (node) => (node.cpu ? node.usedCpu / node.cpu : 0), cell: (node) => bar(node.cpu ? node.usedCpu / node.cpu : null, percent(node.cpu ? node.usedCpu / node.cpu : null))},
  {name: "memory", label: "Memory", number: true, of: (node) => (node.memory ? node.usedMemory / node.memory : 0), cell: (node) => bar(node.memory ? node.usedMemory / node.memory : null, percent(node.memory ? node.usedMemory / node.memory : null))},
  {name: "price", label: "Per hour", number: true, of: (node) => node.price ?? -1, cell: (node) => (node.price === null ? "–" : money(node.price))},
];
