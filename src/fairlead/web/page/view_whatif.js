// What if: changes to a copy of the cluster, and what they come to, on the map and in tables beside it.
//
// The address has the changes, so that a what-if can be sent as a link. It is not played until the user says so:
// opening a link is not to keep a server busy. The last answer is kept while the page is open.

import {DifferenceMap} from "./difference_map.js";
import {Refused, ask} from "./feed.js";
import {WhatIfForm} from "./whatif_form.js";
import {age} from "./format.js";
import {announce, fill, h, setText} from "./dom.js";
import {answerPanel, headlineOf} from "./whatif_answer.js";
import {change} from "./links.js";
import {changesOf, commandOf, emptyChange, pairsOf} from "./whatif_changes.js";

export class WhatIfView {
  constructor(app) {
    this.app = app;
    this.running = null;
    this.problem = h("p", {class: "problem", role: "alert", hidden: true});
    const changes = this.changes();
    this.form = new WhatIfForm(app, changes, {edited: () => this.edited(), asked: () => this.run()});
    this.progress = h("p", {class: "loading"});
    this.since = h("small", {});
    this.going = h("div", {class: "controls going", hidden: true}, this.progress, this.since, h("button", {type: "button", onclick: () => this.cancel()}, "Cancel"));
    this.command = h("pre", {tabindex: 0, "aria-label": "The same on a command line"});
    this.copy = h("button", {type: "button", onclick: () => this.copyCommand()}, "Copy");
    this.answer = h("div", {class: "answer"});
    this.element = h("div", {class: "view whatif"},
      h("div", {class: "controls"}, h("h1", {}, "What if")),
      this.form.element,
      h("details", {class: "panel command"}, h("summary", {}, "The same on a command line"), this.command, this.copy),
      this.problem, this.going, this.answer);
  }

  /** What the address says, or else what was asked last. */
  changes() {
    const said = this.app.place.query.changes;
    const last = this.app.whatIf;
    if (said === undefined) return last?.changes ?? [emptyChange()];
    let found = null;
    try {
      found = changesOf(JSON.parse(said));
    } catch {
      // Not what this page writes.
    }
    if (!found) this.tell("The changes in this address cannot be read.");
    return found?.length ? found : [emptyChange()];
  }

  open() {
    this.form.offer();
    this.edited();
    if (this.app.whatIf?.asked === this.asked) this.show(this.app.whatIf.answer);
  }

  edited() {
    const {changes} = this.form;
    this.asked = JSON.stringify(pairsOf(changes));
    change({changes: changes.some((one) => one.what) ? this.asked : ""});
    setText(this.command, commandOf(changes, this.app.state?.flags ?? []));
    if (this.app.whatIf) this.app.whatIf.changes = changes;
    else this.app.whatIf = {changes};
    this.element.classList.toggle("outdated", Boolean(this.shown) && this.shown !== this.asked);
  }

  tell(problem) {
    this.problem.hidden = !problem;
    this.problem.textContent = problem;
  }

  // Playing

  async run() {
    this.tell("");
    if (this.running || !this.form.check()) return;
    const mine = (this.running = new AbortController());
    const {asked} = this;
    this.say("asking");
    this.wait(true);
    try {
      for await (const line of ask("api/whatif", {changes: JSON.parse(asked)}, mine.signal)) {
        if (line.say) this.say(line.say);
        else if (line.wrong) this.refused(line.wrong);
        else if (line.answer) {
          Object.assign(this.app.whatIf, {asked, answer: line.answer});
          this.show(line.answer, asked);
        }
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) this.app.connection("refused", error.status, error.message);
      else if (error instanceof Refused) this.tell(sentence(error.message));
      else if (error instanceof TypeError) this.tell("The server does not answer.");
      else throw error;
    } finally {
      if (this.running === mine) this.wait(false);
    }
  }

  refused({why, change: number}) {
    if (number === undefined) this.tell(sentence(why));
    else this.form.refuse(number, sentence(why));
  }

  say(text) {
    setText(this.progress, `${sentence(text)} …`);
  }

  wait(on) {
    clearInterval(this.timer);
    if (!on) this.running = null;
    this.going.hidden = !on;
    this.form.busy(on);
    if (!on) return;
    announce("It is being worked out");
    const began = performance.now();
    const tick = () => setText(this.since, age((performance.now() - began) / 1000));
    tick();
    this.timer = setInterval(tick, 1000);
  }

  cancel() {
    this.running?.abort();
    this.wait(false);
    announce("Cancelled");
  }

  // The answer

  show(answer, asked = this.asked) {
    this.map?.stop();
    this.shown = asked;
    this.map = new DifferenceMap(answer.map);
    const [tone, text] = headlineOf(answer);
    const headline = h("p", {class: `headline ${tone}`, tabindex: -1}, text);
    fill(this.answer,
      h("p", {class: "stale"}, "The form was changed since: this is the answer to what stood there before."),
      headline,
      h("div", {class: "split ab"}, h("div", {class: "grow"}, this.map.element), answerPanel(answer)));
    this.element.classList.toggle("outdated", asked !== this.asked);
    announce(text);
  }

  async copyCommand() {
    try {
      await navigator.clipboard.writeText(this.command.textContent);
      announce("Copied");
      setText(this.copy, "Copied");
      setTimeout(() => setText(this.copy, "Copy"), 2000);
    } catch {
      // Without TLS a page may not: what is selected can be copied by hand.
      getSelection().selectAllChildren(this.command);
      announce("Selected, to be copied");
    }
  }

  update() {
    // The answer is about the moment at which the cluster was read.
  }

  theme() {
    this.map?.theme();
  }

  stop() {
    this.running?.abort();
    clearInterval(this.timer);
    this.map?.stop();
  }
}

function sentence(text) {
  const end = /[.!?]$/.test(text) ? "" : ".";
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${end}`;
}
