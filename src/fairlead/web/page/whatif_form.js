// The form of a what-if: changes in order, each with what there is to choose from, and what is wrong with it beside it.

import {CHANGES, emptyChange, problemOf} from "./whatif_changes.js";
import {announce, fill, h} from "./dom.js";
import {read} from "./feed.js";

const OFFERED = 2000; // choices of a list

export class WhatIfForm {
  /** `edited()` is called after each change of the form, `asked()` when the user wants an answer. */
  constructor(app, changes, {edited, asked}) {
    this.app = app;
    this.edited = edited;
    this.changes = changes;
    this.problems = new Map(); // of changes
    this.replicas = new Map(); // of workloads
    this.fields = new Map(); // of changes: what is to be in focus when something is wrong with it
    this.list = h("ol", {class: "changes", "aria-label": "Changes, in order"});
    this.lists = h("div", {hidden: true});
    this.element = h("form", {class: "panel whatif-form", novalidate: true, onsubmit: (event) => { event.preventDefault(); asked(); }},
      h("p", {}, "Changes are made to a copy of the cluster, in this order, a second apart. The copy goes on until nothing changes any more; nothing is written to the cluster."),
      this.list, this.lists,
      h("div", {class: "controls"},
        h("button", {type: "button", onclick: () => this.add()}, "Add a change"),
        (this.button = h("button", {type: "submit", class: "primary"}, "Show what would happen"))));
    this.show();
  }

  /** What there is to choose from. */
  async offer() {
    const nodes = [...this.app.board.nodes.values()];
    const values = (of) => [...new Set(nodes.map(of))].filter(Boolean).sort();
    this.options("nodes", values((node) => node.name));
    this.options("zones", values((node) => node.zone));
    this.options("groups", [...new Set([...(this.app.state?.groups ?? []), ...values((node) => node.group)])].sort());
    try {
      const [{tiers}, {workloads}] = await Promise.all(["api/tiers", "api/workloads"].map(read));
      this.options("tiers", Object.entries(tiers).flatMap(([policy, one]) => one.tiers.map((tier) => `${policy}/${tier}`)));
      this.replicas = new Map(workloads);
      this.options("workloads", [...this.replicas.keys()]);
    } catch {
      // Choices are a help; the feed says what is wrong with the connection.
    }
  }

  options(name, values) {
    const list = h("datalist", {id: `whatif-${name}`}, values.slice(0, OFFERED).map((value) => h("option", {value})));
    this.lists.querySelector(`#whatif-${name}`)?.remove();
    this.lists.append(list);
  }

  show() {
    this.fields.clear();
    fill(this.list, this.changes.map((change, i) => this.row(change, i)));
  }

  row(change, i) {
    const kind = CHANGES[change.name];
    const [number, last] = [i + 1, this.changes.length - 1];
    const id = `change-${number}`;
    const problem = h("p", {class: "field-problem", id: `${id}-problem`, role: "alert"}, this.problems.get(change) ?? "");
    const said = {id, "aria-label": `${kind.asks} of change ${number}`, placeholder: kind.asks, "aria-describedby": `${id}-problem ${id}-hint`, "aria-invalid": this.problems.has(change) && "true", spellcheck: "false", autocomplete: "off"};
    const typed = (field) => (event) => this.type(change, field, event.target, problem);
    const what = kind.manifests
      ? h("textarea", {...said, rows: Math.min(16, Math.max(5, change.what.split("\n").length)), value: change.what, oninput: typed("what")})
      : h("input", {...said, list: `whatif-${kind.choices}`, value: change.what, oninput: typed("what")});
    this.fields.set(change, what);
    const move = (by, sign, word) => h("button", {type: "button", class: "icon", "aria-label": `Make change ${number} ${word}`, title: `${word[0].toUpperCase()}${word.slice(1)}`, disabled: i + by < 0 || i + by > last, onclick: () => this.move(i, by)}, sign);
    return h("li", {class: kind.manifests ? "change tall" : "change"},
      h("select", {"aria-label": `Change ${number}`, onchange: (event) => this.rename(change, event.target.value)},
        Object.entries(CHANGES).map(([name, {label}]) => h("option", {value: name, selected: name === change.name}, label))),
      h("div", {class: "fields"}, what,
        kind.number && h("input", {type: "text", inputmode: "numeric", class: "amount", "aria-label": `${kind.number} of change ${number}`, placeholder: kind.number, title: kind.number, value: change.number, oninput: typed("number")})),
      h("div", {class: "tools"}, move(-1, "↑", "earlier"), move(1, "↓", "later"),
        h("button", {type: "button", class: "icon", "aria-label": `Remove change ${number}`, title: "Remove", onclick: () => this.remove(i)}, "✕")),
      h("small", {class: "hint", id: `${id}-hint`}, kind.hint), problem);
  }

  type(change, field, element, problem) {
    change[field] = element.value;
    if (field === "what" && change.name === "scale" && this.replicas.has(element.value)) {
      change.number = String(this.replicas.get(element.value));
      element.parentElement.querySelector(".amount").value = change.number;
    }
    if (this.problems.delete(change)) {
      problem.textContent = "";
      this.fields.get(change).removeAttribute("aria-invalid");
    }
    this.edited();
  }

  rename(change, name) {
    const [before, after] = [CHANGES[change.name], CHANGES[name]];
    if (before.choices !== after.choices || before.manifests !== after.manifests) change.what = "";
    change.name = name;
    this.problems.delete(change);
    this.again(change);
  }

  add() {
    this.changes.push(emptyChange());
    this.again(this.changes.at(-1));
  }

  move(i, by) {
    const [moved] = this.changes.splice(i, 1);
    this.changes.splice(i + by, 0, moved);
    this.again(moved);
    announce(`Now change ${i + by + 1}`);
  }

  remove(i) {
    const [gone] = this.changes.splice(i, 1);
    this.problems.delete(gone);
    if (!this.changes.length) this.changes.push(emptyChange());
    this.again(this.changes[Math.min(i, this.changes.length - 1)]);
  }

  /** Show the form again, with a change in focus. */
  again(change) {
    this.show();
    this.fields.get(change)?.focus();
    this.edited();
  }

  /** Whether it can be asked; else what is wrong is said where it is. */
  check() {
    this.problems.clear();
    for (const change of this.changes) {
      const problem = problemOf(change);
      if (problem) this.problems.set(change, problem);
    }
    this.show();
    this.fields.get(this.problems.keys().next().value)?.focus();
    return !this.problems.size;
  }

  /** What the server says is wrong with a change. */
  refuse(number, why) {
    const change = this.changes[number];
    this.problems.set(change, why);
    this.show();
    this.fields.get(change).focus();
  }

  busy(on) {
    this.button.disabled = on;
  }
}
