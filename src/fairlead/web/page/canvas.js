// The map itself: two canvases, one for boxes and pods, painted only where something changed, and one above it for
// what moves: the box under the pointer, the chosen one, and a flash where a pod came or went.

import {neighbour, nodeAt, stack} from "./layout.js";
import {middle, shared} from "./format.js";

const FLASH_MS = 900;
const EDGE = 4; // around the boxes, for the ring of one at the edge
const NAMED = 58; // boxes of this width have names
const FITTED = 20_000; // texts of which it is remembered how they were cut
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

export class Canvas {
  /** `chosen(name)` and `opened(name)` are called for keys and clicks, `hovered(name, x, y, pod)` for the pointer. */
  constructor({chosen, opened, hovered}) {
    this.chosen = chosen;
    this.opened = opened;
    this.hovered = hovered;
    this.element = document.createElement("div");
    this.element.className = "map";
    this.base = document.createElement("canvas");
    this.over = document.createElement("canvas");
    this.base.setAttribute("aria-hidden", "true");
    this.over.tabIndex = 0;
    this.over.setAttribute("role", "application");
    this.over.setAttribute("aria-roledescription", "map of nodes");
    this.over.setAttribute("aria-label", "Map of nodes. Arrow keys move, Enter opens a node. The table shows the same.");
    this.element.append(this.base, this.over);
    this.made = null;
    this.selected = "";
    this.under = "";
    this.flashes = new Map();
    this.frame = 0;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.over.addEventListener("pointermove", (event) => this.point(event));
    this.over.addEventListener("pointerleave", () => this.leave());
    this.over.addEventListener("click", (event) => this.click(event));
    this.over.addEventListener("keydown", (event) => this.key(event));
    this.over.addEventListener("focus", () => this.paintOver());
    this.over.addEventListener("blur", () => this.paintOver());
  }

  /** Another layout, other colours, or everything changed. */
  show(board, made, colours, filter) {
    this.board = board;
    this.made = made;
    this.colours = colours;
    this.filter = filter;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const width = Math.ceil(made.width) + 2 * EDGE;
    const height = Math.ceil(made.height) + 2 * EDGE;
    for (const canvas of [this.base, this.over]) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.element.style.height = `${height}px`;
    this.pen = this.base.getContext("2d", {alpha: false});
    this.pen.setTransform(ratio, 0, 0, ratio, EDGE * ratio, EDGE * ratio);
    this.overPen = this.over.getContext("2d");
    this.overPen.setTransform(ratio, 0, 0, ratio, EDGE * ratio, EDGE * ratio);
    this.painted = null;
    [this.head, this.tail] = made.w >= NAMED ? shared([...made.boxes.keys()]) : [0, 0];
    this.fitted = new Map();
    this.readTheme();
    this.paintAll();
  }

  readTheme() {
    const style = getComputedStyle(document.documentElement);
    const said = (name) => style.getPropertyValue(name).trim();
    this.ink = {
      ground: said("--ground"), box: said("--box"), line: said("--line"), text: said("--text"), soft: said("--soft"),
      bad: said("--bad"), badGround: said("--bad-ground"), accent: said("--accent"), warn: said("--warn"), good: said("--good"),
    };
    this.striped = this.stripes();
    this.dotted = this.dots();
  }

  dots() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.fillStyle = this.ink.ground;
    pen.fillRect(1, 1, 1.5, 1.5);
    pen.fillRect(4, 4, 1.5, 1.5);
    return this.pen.createPattern(tile, "repeat");
  }

  stripes() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = this.ink.ground;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(-1, 7);
    pen.lineTo(7, -1);
    pen.stroke();
    return this.pen.createPattern(tile, "repeat");
  }

  paintAll() {
    const {pen, made} = this;
    pen.fillStyle = this.ink.ground;
    pen.fillRect(-EDGE, -EDGE, made.width + 2 * EDGE, made.height + 2 * EDGE);
    pen.textBaseline = "middle";
    for (const section of made.sections) {
      pen.font = `600 13px ${FONT}`;
      pen.fillStyle = this.ink.text;
      pen.fillText(section.label, 0, section.y + 13);
    }
    for (const box of made.boxes.values()) this.paintBox(box);
    this.paintOver();
  }

  /** Paint these nodes again; with `flash`, so that it is noticed. */
  paint(names, flash) {
    if (!this.made) return;
    for (const name of names) {
      const box = this.made.boxes.get(name);
      if (!box) continue;
      this.paintBox(box);
      if (flash && !this.still.matches) this.flashes.set(name, performance.now());
    }
    this.paintOver();
  }

  paintBox(box) {
    const {pen, made, ink} = this;
    const {w, h} = made;
    const node = this.board.nodes.get(box.name);
    pen.fillStyle = ink.ground;
    pen.fillRect(box.x - 1, box.y - 1, w + 2, h + 2);
    if (!node) return;
    const bad = node.state === "NotReady" || node.mark === "gone";
    pen.fillStyle = bad ? ink.badGround : ink.box;
    pen.fillRect(box.x, box.y, w, h);
    const named = w >= NAMED;
    const head = named ? 18 : 0;
    const edge = w >= 34 ? 3 : 1;
    const inner = h - head - 2 * edge;
    const left = box.x + edge;
    const width = w - 2 * edge;
    const top = box.y + head + edge;
    for (const {pod, y, height} of stack(node, inner, named ? 15 : 1.5)) {
      const faded = this.filter && !this.filter(pod);
      pen.globalAlpha = faded ? 0.12 : pod.state === "starting" ? 0.6 : 1;
      pen.fillStyle = this.colours.colour(pod);
      const gap = height >= 4 ? 1 : 0;
      pen.fillRect(left, top + y + gap, width, height - gap);
      const written = named && height >= 13;
      // Where there is room for a text with a sign, that says the same.
      const pattern = written && pod.sign ? null : pod.state === "leaving" ? this.striped : pod.state === "coming" ? this.dotted : null;
      if (pattern) {
        pen.fillStyle = pattern;
        pen.fillRect(left, top + y + gap, width, height - gap);
      }
      if (written && !faded) this.write((pod.sign ? `${pod.sign} ` : "") + pod.key.slice(pod.key.indexOf("/") + 1), left + 4, top + y + gap + (height - gap) / 2, width - 8, pod);
    }
    pen.globalAlpha = 1;
    if (named) {
      pen.font = `12px ${FONT}`;
      pen.fillStyle = bad ? ink.bad : node.mark === "added" ? ink.good : ink.text;
      const mark = bad ? "✕ " : node.mark === "added" ? "+ " : node.state === "Cordoned" ? "⊘ " : "";
      pen.fillText(mark + this.fit(box.name, w - 8 - (mark && 14), (most) => this.short(box.name, most)), box.x + 4, box.y + 10);
    }
    const thick = node.mark === "added" || node.mark === "gone" ? 2 : 1;
    pen.lineWidth = thick;
    pen.strokeStyle = bad ? ink.bad : node.mark === "added" ? ink.good : ink.line;
    pen.setLineDash(node.state === "Cordoned" ? [3, 3] : node.mark === "gone" ? [7, 4] : []);
    if (w >= 13 || thick > 1) pen.strokeRect(box.x + thick / 2, box.y + thick / 2, w - thick, h - thick);
    pen.setLineDash([]);
  }

  /** A node's name; where it is too long, without what all names begin or end with. */
  short(name, most) {
    if (name.length <= most) return name;
    return (this.head ? "…" : "") + name.slice(this.head, name.length - this.tail) + (this.tail ? "…" : "");
  }

  /** A text as long as there is room for, in the pen's font: as a whole, or cut in its middle. */
  fit(text, room, shorter = () => text) {
    const known = `${this.pen.font} ${room} ${text}`;
    let found = this.fitted.get(known);
    if (found === undefined) {
      const wide = (some) => this.pen.measureText(some).width;
      found = text;
      for (let most = text.length - 1; most > 2 && wide(found) > room; most -= 1) found = middle(shorter(most), most);
      if (this.fitted.size > FITTED) this.fitted.clear();
      this.fitted.set(known, found);
    }
    return found;
  }

  write(text, x, y, room, pod) {
    const {pen} = this;
    pen.font = `11px ${FONT}`;
    if (room < 24) return;
    pen.fillStyle = onColour(pod.state === "leaving" && !pod.sign ? this.ink.box : this.colours.colour(pod), pod.state === "starting" ? this.ink.box : "");
    pen.fillText(this.fit(text, room), x, y + 0.5);
  }

  paintOver() {
    if (this.frame || !this.made) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paintOverNow();
    });
  }

  paintOverNow() {
    const pen = this.overPen;
    const {made, ink} = this;
    // Only what was painted before is wiped: of a large map most is empty here.
    for (const area of this.painted ?? [[-EDGE, -EDGE, made.width + 2 * EDGE, made.height + 2 * EDGE]]) pen.clearRect(...area);
    this.painted = [];
    const now = performance.now();
    pen.lineWidth = 2;
    for (const [name, since] of this.flashes) {
      const age = (now - since) / FLASH_MS;
      const box = made.boxes.get(name);
      if (age >= 1 || !box) {
        this.flashes.delete(name);
        continue;
      }
      pen.globalAlpha = 1 - age;
      pen.strokeStyle = ink.accent;
      this.ring(box, 1);
    }
    pen.globalAlpha = 1;
    for (const [name, colour, away] of [[this.under, ink.soft, 1], [this.selected, ink.accent, 2]]) {
      const box = made.boxes.get(name);
      if (!box) continue;
      pen.strokeStyle = colour;
      this.ring(box, away);
    }
    if (this.flashes.size) this.paintOver();
  }

  ring(box, away) {
    const {made} = this;
    this.overPen.strokeRect(box.x - away + 0.5, box.y - away + 0.5, made.w + 2 * away - 1, made.h + 2 * away - 1);
    this.painted.push([box.x - away - 2, box.y - away - 2, made.w + 2 * away + 4, made.h + 2 * away + 4]);
  }

  /** The pod of a node at a height within its box. */
  podAt(name, y) {
    const box = this.made.boxes.get(name);
    const node = this.board.nodes.get(name);
    if (!box || !node) return null;
    const {w, h} = this.made;
    const head = w >= NAMED ? 18 : 0;
    const edge = w >= 34 ? 3 : 1;
    const at = y - box.y - head - edge;
    return stack(node, h - head - 2 * edge, w >= NAMED ? 15 : 1.5).find((one) => at >= one.y && at < one.y + one.height)?.pod ?? null;
  }

  select(name) {
    if (this.selected === name) return;
    this.selected = name;
    this.paintOver();
  }

  point(event) {
    if (!this.made) return;
    const [x, y] = [event.offsetX - EDGE, event.offsetY - EDGE];
    const name = nodeAt(this.made, x, y);
    if (name !== this.under) {
      this.under = name;
      this.paintOver();
    }
    this.hovered(name, x, y, name ? this.podAt(name, y) : null);
  }

  leave() {
    this.under = "";
    this.paintOver();
    this.hovered("", 0, 0, null);
  }

  click(event) {
    if (!this.made) return;
    const name = nodeAt(this.made, event.offsetX - EDGE, event.offsetY - EDGE);
    if (name) this.opened(name);
  }

  key(event) {
    if (!this.made) return;
    if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
      event.preventDefault();
      const name = neighbour(this.made, this.selected, event.key);
      if (name) this.chosen(name);
      this.reveal(name);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.selected) this.opened(this.selected);
    }
  }

  /** Scroll so that a node's box is seen. */
  reveal(name) {
    const box = this.made?.boxes.get(name);
    if (!box) return;
    const at = this.element.getBoundingClientRect();
    const top = at.top + box.y;
    if (top < 80) scrollBy(0, top - 120);
    else if (top + this.made.h > innerHeight - 40) scrollBy(0, top + this.made.h - innerHeight + 80);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.made = null;
  }
}

/** Black or white, whichever can be read on a colour. */
function onColour(colour, behind) {
  if (behind) return luminance(behind) > 0.4 ? "#10151b" : "#ffffff";
  return luminance(colour) > 0.32 ? "#10151b" : "#ffffff";
}

function luminance(colour) {
  const value = parseInt(colour.slice(1), 16);
  const part = (shift) => {
    const c = ((value >> shift) & 255) / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0);
}
