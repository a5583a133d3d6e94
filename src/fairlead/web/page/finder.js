// Find a pod or node by a part of its name.

import {address} from "./links.js";
import {fill, h} from "./dom.js";

const SHOWN = 12;

export class Finder {
  constructor(app) {
    this.app = app;
    this.at = -1;
    this.list = h("ul", {id: "found", role: "listbox", "aria-label": "Found", hidden: true});
    this.input = h("input", {type: "search", placeholder: "Find a pod or node  /", "aria-label": "Find a pod or node", role: "combobox", autocomplete: "off",
      "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list",
      oninput: () => this.find(), onkeydown: (event) => this.key(event), onblur: () => setTimeout(() => this.close(), 150)});
    this.element = h("div", {class: "finder"}, this.input, this.list);
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  find() {
    const words = this.input.value.trim().toLowerCase();
    const found = [];
    if (words) {
      const {nodes, pods} = this.app.board;
      for (const [kind, names] of [["node", nodes.keys()], ["pod", pods.keys()]]) {
        for (const name of names) {
          if (name.toLowerCase().includes(words)) found.push([kind, name]);
          if (found.length >= SHOWN) break;
        }
      }
    }
    this.at = -1;
    fill(this.list, found.map(([kind, name], i) => h("li", {id: `found-${i}`, role: "option", "aria-selected": "false", "data-to": to(kind, name), onpointerdown: () => this.go(i)}, name, h("small", {}, ` ${kind}`))),
      words && !found.length && h("li", {role: "option", "aria-disabled": "true", "aria-selected": "false"}, "Nothing has that in its name"));
    this.list.hidden = !words;
    this.input.setAttribute("aria-expanded", String(Boolean(words)));
  }

  key(event) {
    const options = [...this.list.querySelectorAll("[data-to]")];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!options.length) return;
      this.at = (this.at + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length;
      options.forEach((one, i) => one.setAttribute("aria-selected", String(i === this.at)));
      this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
    } else if (event.key === "Enter" && options.length) {
      this.go(Math.max(0, this.at));
    } else if (event.key === "Escape") this.close();
  }

  go(i) {
    const chosen = this.list.querySelectorAll("[data-to]")[i];
    this.input.value = "";
    this.close();
    if (chosen) location.hash = chosen.dataset.to;
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

function to(kind, name) {
  return kind === "node" ? address({view: "map", query: {node: name}}) : address({view: "pods", path: name.split("/")});
}
