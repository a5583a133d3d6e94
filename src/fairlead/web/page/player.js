// The past, played again on the same page: the board as it was, and what changed, at the pace it had or faster.

import {Board} from "./board.js";
import {clock} from "./format.js";
import {fill, h, setText} from "./dom.js";
import {read} from "./feed.js";

const SPEEDS = [1, 4, 16, 64];

export class Player {
  /** `shown(board)` is called with the board that plays; `left()` when the user goes back to the present. */
  constructor(element, {shown, left}) {
    this.element = element;
    this.shown = shown;
    this.left = left;
    this.board = null;
    this.timer = 0;
  }

  async start() {
    const {base, frames} = await read("api/replay");
    if (!frames.length) {
      this.left();
      return false;
    }
    this.base = base;
    this.frames = frames;
    this.begins = frames[0].at - 0.5;
    this.ends = frames[frames.length - 1].at;
    this.board = new Board();
    this.speed = this.ends - this.begins > 600 ? 16 : 1;
    this.shown(this.board);
    this.controls();
    this.seek(this.begins);
    this.play(true);
    return true;
  }

  controls() {
    const chapters = this.frames.flatMap((frame) => (frame.name === "delta" ? (frame.data.lines ?? []).filter((line) => line[2] === "chapter").map((line) => line[1]) : []));
    this.button = h("button", {type: "button", onclick: () => this.play(!this.plays)}, "Pause");
    this.range = h("input", {type: "range", min: 0, max: Math.max(1, Math.ceil((this.ends - this.begins) * 10)), step: 1, "aria-label": "Moment", oninput: () => this.seek(this.begins + Number(this.range.value) / 10)});
    this.when = h("output", {});
    const speed = h("select", {"aria-label": "Speed", onchange: (event) => (this.speed = Number(event.target.value))}, SPEEDS.map((one) => h("option", {value: one}, `${one}×`)));
    speed.value = String(this.speed);
    fill(this.element, h("div", {class: "player", role: "group", "aria-label": "Replay"},
      this.button, this.when,
      h("div", {class: "track"}, this.range, chapters.map((at) => h("span", {class: "tick", style: {left: `${((at - this.begins) / (this.ends - this.begins)) * 100}%`}, "aria-hidden": "true"}))),
      speed, h("button", {type: "button", class: "live", onclick: () => this.leave()}, "Back to the present")));
  }

  /** Show the board as it was at a moment. */
  seek(at) {
    if (at < this.now || this.now === undefined) {
      this.board.load(this.base);
      this.next = 0;
    }
    this.now = at;
    this.advance();
  }

  advance() {
    while (this.next < this.frames.length && this.frames[this.next].at <= this.now) {
      const frame = this.frames[this.next];
      if (frame.name === "delta") this.board.apply(frame.data);
      else this.board.answer(frame.data);
      this.next += 1;
    }
    this.range.value = String(Math.round((this.now - this.begins) * 10));
    setText(this.when, clock(this.now));
  }

  play(on) {
    if (on && this.now >= this.ends) this.seek(this.begins);
    this.plays = on;
    this.button.textContent = on ? "Pause" : "Play";
    cancelAnimationFrame(this.timer);
    let last = performance.now();
    const step = (moment) => {
      if (!this.plays) return;
      this.now = Math.min(this.ends, this.now + Math.max(0, (moment - last) / 1000) * this.speed);
      last = moment;
      this.advance();
      if (this.now >= this.ends) this.play(false);
      else this.timer = requestAnimationFrame(step);
    };
    if (on) this.timer = requestAnimationFrame(step);
  }

  leave() {
    this.plays = false;
    cancelAnimationFrame(this.timer);
    fill(this.element);
    this.board = null;
    this.now = undefined;
    this.left();
  }
}
