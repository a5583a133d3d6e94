// Views of what the engine is asked: read when they open, and again when it has new answers.

import {atMostEvery, fill, h} from "./dom.js";
import {Refused, read} from "./feed.js";
import {clock} from "./format.js";

/** A view of one or more documents. `make(view)` builds its content, `show(view, documents)` brings it up to date. */
export function documentView({documents, title, make, show}) {
  return class {
    constructor(app) {
      this.app = app;
      this.board = app.board;
      this.when = h("small", {class: "as-of"});
      this.problem = h("p", {class: "problem", role: "alert", hidden: true});
      this.waiting = h("p", {class: "loading"}, "Asking …");
      this.content = h("div", {class: "content", hidden: true});
      this.element = h("div", {class: "view"}, h("div", {class: "controls"}, h("h1", {}, typeof title === "function" ? title(app) : title), this.when),
        this.problem, this.waiting, this.content);
      this.asked = 0;
      this.again = atMostEvery(500, () => this.ask());
      fill(this.content, make(this));
    }

    open() {
      this.again();
    }

    update(change) {
      if (change.answers) this.again();
    }

    async ask() {
      const mine = (this.asked += 1);
      try {
        const paths = typeof documents === "function" ? documents(this.app) : documents.map((one) => `api/${one}`);
        const found = await Promise.all(paths.map(read));
        if (mine !== this.asked || !this.element.isConnected) return;
        this.problem.hidden = true;
        this.content.hidden = false;
        this.when.textContent = `as of ${clock(found[0].at)}${this.app.replaying ? "; not part of the replay" : ""}`;
        show(this, found);
      } catch (error) {
        if (mine !== this.asked) return;
        if (!(error instanceof Refused) && !(error instanceof TypeError)) throw error;
        this.problem.hidden = false;
        this.problem.textContent = error instanceof Refused ? error.message : "The server does not answer; this is what it said last.";
        if (error instanceof Refused) this.content.hidden = true;
      } finally {
        this.waiting.hidden = true;
      }
    }

    stop() {
      this.asked = -1;
      this.again.stop();
    }
  };
}
