// What happened, line by line: placed, held, preempted by whom, moved. It follows unless told to stand still.

import {DECISIONS, KINDS, gathered, lineRow, nameOf} from "./lines.js";
import {atMostEvery, fill, h} from "./dom.js";
import {change} from "./links.js";
import {count} from "./format.js";

const SHOWN = 300;

export class DecisionsView {
  constructor(app) {
    this.app = app;
    this.board = app.board;
    const {kinds, q = "", follow, line = ""} = app.place.query;
    this.chosen = line; // is shown whatever is filtered, in the middle of the window, while the list stands still
    this.kinds = new Set(kinds === undefined ? [...DECISIONS, "chapter"] : kinds.split(",").filter(Boolean));
    this.words = q;
    this.follows = follow !== "0" && !line;
    this.until = Infinity; // the newest line that is shown while it stands still
    this.chips = h("ul", {class: "legend", "aria-label": "Kinds"});
    this.search = h("input", {type: "search", id: "words", size: 28, placeholder: "pod, node, gang or reason", value: q, oninput: () => this.filter()});
    this.follow = h("button", {type: "button", class: "toggle", onclick: () => this.stand(!this.follows)}, "Follow");
    this.list = h("ol", {class: "lines", "aria-label": "What happened, newest first"});
    this.none = h("p", {class: "empty", hidden: true});
    this.lost = h("p", {class: "problem", hidden: true}, "The line that this address leads to is no longer remembered.");
    this.more = h("button", {type: "button", class: "more", hidden: true, onclick: () => this.stand(true)});
    this.element = h("div", {class: "view"},
      h("div", {class: "controls"}, h("h1", {}, "Decisions"), h("span", {class: "field"}, h("label", {for: "words"}, "Find "), this.search), this.follow),
      this.chips, this.lost, this.more, this.list, this.none);
    this.again = atMostEvery(250, () => this.show());
  }

  open() {
    fill(this.chips, Object.entries(KINDS).map(([kind, [label]]) => h("li", {},
      h("button", {type: "button", class: "chip", "data-kind": kind, "aria-pressed": String(this.kinds.has(kind)), onclick: () => this.pick(kind)}, label))));
    this.stand(this.follows);
    this.list.querySelector(".chosen")?.scrollIntoView({block: "center"});
  }

  update(change) {
    if (change.lines.length || change.whole) this.again();
  }

  pick(kind) {
    if (!this.kinds.delete(kind)) this.kinds.add(kind);
    this.chips.querySelector(`[data-kind="${kind}"]`).setAttribute("aria-pressed", String(this.kinds.has(kind)));
    change({kinds: [...this.kinds].join(",")});
    this.show();
  }

  filter() {
    this.words = this.search.value;
    change({q: this.words});
    this.again();
  }

  stand(follows) {
    this.follows = follows;
    this.until = follows ? Infinity : (this.board.lines.at(-1)?.number ?? 0);
    this.follow.setAttribute("aria-pressed", String(follows));
    if (follows) this.chosen = "";
    change({follow: follows ? "" : "0", line: this.chosen});
    this.show();
  }

  show() {
    const words = this.words.trim().toLowerCase();
    const fits = (line) => (this.chosen && nameOf(line) === this.chosen) || this.kinds.has(line.kind) && (!words || `${line.about} ${line.text} ${line.gang} ${line.node}`.toLowerCase().includes(words));
    const found = [];
    let later = 0;
    for (let i = this.board.lines.length - 1; i >= 0 && found.length < SHOWN; i -= 1) {
      const line = this.board.lines[i];
      if (!fits(line)) continue;
      if (line.number > this.until) later += 1;
      else found.push(line);
    }
    const rows = this.chosen ? found : gathered(found);
    fill(this.list, rows.map((line) => lineRow(line, this.chosen)));
    this.lost.hidden = !this.chosen || found.some((line) => nameOf(line) === this.chosen);
    this.more.hidden = !later;
    this.more.textContent = `Show ${count(later, "newer line")}`;
    this.none.hidden = found.length > 0;
    this.none.textContent = this.board.lines.length ? "No line has these kinds and words." : "Nothing has happened yet.";
  }

  stop() {
    this.again.stop();
  }
}
