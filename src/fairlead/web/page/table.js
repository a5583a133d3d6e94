// Tables: headings that sort, pages of rows, kept up to date without losing the reader's place.

import {fill, h} from "./dom.js";
import {count} from "./format.js";

const PAGE = 100;

export class Table {
  /**
   * `columns`: [{name, label, of(row) → sortable, cell(row) → content, number: bool}]; `caption` is read out.
   * `sort` is the name of a column, with "-" before it for the largest first.
   */
  constructor(columns, {caption, sort = "", empty = "There is nothing to show.", sorted = () => {}}) {
    this.columns = columns;
    this.sort = sort;
    this.sorted = sorted;
    this.empty = empty;
    this.rows = [];
    this.page = 0;
    // Narrow windows show each row as a block. The roles say that it is a table all the same.
    this.body = h("tbody", {role: "rowgroup"});
    this.head = h("tr", {role: "row"});
    this.pager = h("div", {class: "pager"});
    this.none = h("p", {class: "empty", hidden: true}, empty);
    this.element = h("div", {class: "tabled"},
      h("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
        h("table", {role: "table"}, h("caption", {class: "unseen"}, caption), h("thead", {role: "rowgroup"}, this.head), this.body)),
      this.none, this.pager);
    this.heads();
  }

  heads() {
    fill(this.head, this.columns.map((column) => {
      const on = this.sort.replace("-", "") === column.name;
      const state = !on ? "none" : this.sort.startsWith("-") ? "descending" : "ascending";
      if (!column.of) return h("th", {role: "columnheader", scope: "col", class: column.number && "number"}, column.label);
      return h("th", {role: "columnheader", scope: "col", "aria-sort": state, class: column.number && "number"},
        h("button", {type: "button", onclick: () => this.order(column)}, column.label, h("span", {class: "arrow", "aria-hidden": "true"}, on ? (state === "ascending" ? " ↑" : " ↓") : "")));
    }));
  }

  order(column) {
    const first = column.number ? `-${column.name}` : column.name;
    const second = column.number ? column.name : `-${column.name}`;
    this.sort = this.sort === first ? second : first;
    this.page = 0;
    this.heads();
    this.show(this.rows);
    this.sorted(this.sort);
  }

  show(rows) {
    this.rows = rows;
    const column = this.columns.find((one) => one.name === this.sort.replace("-", ""));
    let sorted = rows;
    if (column) {
      const sign = this.sort.startsWith("-") ? -1 : 1;
      const keyed = rows.map((row) => [column.of(row), row]);
      keyed.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0));
      sorted = keyed.map(([, row]) => row);
    }
    const pages = Math.max(1, Math.ceil(sorted.length / PAGE));
    this.page = Math.min(this.page, pages - 1);
    const shown = sorted.slice(this.page * PAGE, (this.page + 1) * PAGE);
    fill(this.body, shown.map((row) => h("tr", {role: "row"}, this.columns.map((column, i) => {
      const said = {role: i === 0 ? "rowheader" : "cell", class: column.number && "number", "data-label": column.label};
      return i === 0 ? h("th", {...said, scope: "row"}, column.cell(row)) : h("td", said, column.cell(row));
    }))));
    this.none.hidden = rows.length > 0;
    this.element.classList.toggle("is-empty", rows.length === 0);
    fill(this.pager, pages > 1 && [
      h("button", {type: "button", disabled: this.page === 0, onclick: () => this.turn(-1)}, "Back"),
      h("span", {}, `${this.page * PAGE + 1}–${this.page * PAGE + shown.length} of ${count(rows.length, "row")}`),
      h("button", {type: "button", disabled: this.page === pages - 1, onclick: () => this.turn(1)}, "Next")]);
  }

  turn(by) {
    this.page += by;
    this.show(this.rows);
  }
}

/** A bar: how much of something is used; or, with `good`, how much of what is needed is there. */
export function bar(share, label, {good = false} = {}) {
  const shown = Math.max(0, Math.min(1, share ?? 0));
  return h("span", {class: "bar-cell"},
    h("span", {class: `bar${good ? (share >= 1 ? " good" : "") : share > 0.95 ? " full" : ""}`, "aria-hidden": "true"}, h("span", {style: {width: `${shown * 100}%`}})),
    h("span", {class: "bar-label"}, label));
}
