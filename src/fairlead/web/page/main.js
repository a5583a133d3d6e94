// The page: its frame, which view is shown, and how it is connected.

import {Board} from "./board.js";
import {DecisionsView} from "./view_decisions.js";
import {Feed} from "./feed.js";
import {Finder} from "./finder.js";
import {MapView} from "./view_map.js";
import {Player} from "./player.js";
import {PodView} from "./view_pod.js";
import {PoliciesView} from "./view_policies.js";
import {QueueView} from "./view_queue.js";
import {SignIn} from "./signin.js";
import {Strip} from "./strip.js";
import {WhatIfView} from "./view_whatif.js";
import {address, parse} from "./links.js";
import {announce, atMostEvery, fill, h, setText} from "./dom.js";

const VIEWS = {map: MapView, queue: QueueView, decisions: DecisionsView, policies: PoliciesView, whatif: WhatIfView, pods: PodView};
const TABS = [["map", "Map"], ["queue", "Queue"], ["decisions", "Decisions"], ["policies", "Policies"], ["whatif", "What if"]];

class App {
  constructor() {
    this.present = new Board();
    this.board = this.present;
    this.place = parse(location.hash);
    this.view = null;
    this.state = null;
    this.whatIf = null; // what was asked last, for as long as the page is open
    this.feed = new Feed(this.present, {said: (...what) => this.connection(...what), loaded: (state) => this.loaded(state)});
    this.player = new Player(document.getElementById("player"), {shown: (board) => this.use(board), left: () => this.use(this.present)});
    this.strip = new Strip(document.getElementById("strip"));
    this.main = document.getElementById("main");
    this.notice = document.getElementById("notice");
    this.slow = atMostEvery(300, () => this.overview());
    this.listener = (change) => this.changed(change);
    this.board.listeners.add(this.listener);
    this.frame();
    addEventListener("hashchange", () => this.go());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.view?.theme?.());
    addEventListener("keydown", (event) => this.key(event));
  }

  get replaying() {
    return this.board !== this.present;
  }

  start() {
    this.feed.start();
  }

  // The frame

  frame() {
    this.theme(localStorage.getItem("theme") ?? "");
    this.title = h("span", {class: "cluster"});
    this.lamp = h("span", {class: "lamp", "aria-live": "polite"});
    this.finder = new Finder(this);
    this.tabs = h("nav", {"aria-label": "Views"}, TABS.map(([view, label]) => h("a", {href: address({view}), "data-view": view}, label)));
    this.story = h("p", {class: "story", hidden: true});
    fill(document.getElementById("top"),
      h("a", {class: "mark", href: address({view: "map"})}, h("img", {src: "page/mark.svg", alt: "", width: 24, height: 24}), "Fairlead"), this.title, this.tabs,
      h("div", {class: "tools"}, this.finder.element, this.lamp,
        (this.replay = h("button", {type: "button", onclick: () => this.playBack()}, "Replay")),
        h("button", {type: "button", "aria-label": "Light or dark", title: "Light or dark", onclick: () => this.nextTheme()}, "◐"),
        (this.out = h("button", {type: "button", hidden: true, onclick: () => this.signOut()}, "Sign out"))));
  }

  theme(name) {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
  }

  nextTheme() {
    const dark = getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
    this.theme(dark ? "light" : "dark");
    localStorage.setItem("theme", dark ? "light" : "dark");
    this.view?.theme?.();
  }

  key(event) {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      this.finder.focus();
    } else if (event.key === "Escape" && this.view?.shown) this.view.close?.();
  }

  // The connection

  loaded(state) {
    this.state = state;
    setText(this.title, state.title ?? "");
    document.title = state.title ? `Fairlead · ${state.title}` : "Fairlead";
    this.out.hidden = state.signIn !== "token";
    document.body.classList.add("signed-in");
    if (!this.view) this.go();
    this.overview();
  }

  connection(what, ...more) {
    document.body.dataset.connection = what;
    if (what === "live") {
      setText(this.lamp, "live");
      fill(this.notice);
    } else if (what === "lost") {
      setText(this.lamp, "not connected");
      fill(this.notice, h("p", {class: "banner"}, this.state ? `${sentence(more[0])}. What you see is how it was; trying again.` : `${sentence(more[0])}; trying again.`));
    } else {
      this.refused(...more);
    }
  }

  refused(status, why) {
    this.feed.stop();
    this.close();
    this.state = null;
    this.present.clear();
    document.body.classList.remove("signed-in");
    setText(this.lamp, "");
    fill(this.notice);
    fill(document.getElementById("strip"));
    fill(this.main, new SignIn(status, why, () => this.start()).element);
  }

  async signOut() {
    await fetch("session", {method: "DELETE"});
    this.refused(401, "you are signed out");
  }

  // Views

  go() {
    if (!this.state) return;
    const before = this.place;
    this.place = parse(location.hash);
    this.close();
    const View = VIEWS[this.place.view];
    for (const tab of this.tabs.children) {
      if (tab.dataset.view === this.place.view) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    if (!View || (this.place.view === "pods" && this.place.path.length !== 2)) {
      fill(this.main, h("div", {class: "view"}, h("h1", {}, "There is no such view"), h("p", {}, h("a", {href: address({view: "map"})}, "To the map"))));
      return;
    }
    this.view = new View(this);
    fill(this.main, this.story, this.view.element);
    this.view.open();
    if (before.view !== this.place.view) {
      scrollTo(0, 0);
      announce(this.view.element.querySelector("h1")?.textContent ?? "");
    }
  }

  close() {
    this.view?.stop();
    this.view = null;
  }

  changed(change) {
    this.view?.update(change);
    for (const line of change.lines) if (line.kind === "chapter") this.tell(line.text);
    if (change.whole) this.tell(this.board.lines.findLast((line) => line.kind === "chapter")?.text ?? "");
    this.slow();
  }

  tell(text) {
    this.story.hidden = !text;
    setText(this.story, text);
  }

  overview() {
    if (this.state) this.strip.show(this.board);
  }

  // The past

  async playBack() {
    if (this.replaying) {
      this.player.leave();
      return;
    }
    this.replay.disabled = true;
    try {
      if (!(await this.player.start())) announce("There is nothing to replay yet");
    } catch (error) {
      announce(error.message);
    } finally {
      this.replay.disabled = false;
    }
  }

  /** Show another board: that of the present, or one of the past. */
  use(board) {
    this.board.listeners.delete(this.listener);
    this.board = board;
    board.listeners.add(this.listener);
    document.body.classList.toggle("replaying", this.replaying);
    setText(this.replay, this.replaying ? "Live" : "Replay");
    this.go();
    this.tell(board.lines.findLast((line) => line.kind === "chapter")?.text ?? "");
    this.overview();
  }
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const app = new App();
app.start();
window.fairlead = app; // for tests and the curious
