// Where each node's box is on the map: sections one below the other, boxes in rows, as large as fits the window.

import {count} from "./format.js";

const SIZES = [[440, 280], [320, 206], [230, 150], [190, 124], [150, 104], [120, 88], [96, 74], [76, 62], [58, 50], [44, 40], [34, 32], [26, 25], [20, 20], [16, 16], [13, 13], [11, 11]];
const HEAD = 26; // a section's heading
const AFTER = 10; // below a section

/**
 * Nodes in sections, by what `nameOf` finds of each; "" comes last, and is called `without`. In the given order, or
 * that of the names.
 */
export function sectionsOf(nodes, nameOf, without, order = null) {
  const found = new Map();
  for (const node of nodes) {
    const name = nameOf(node);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(node.name);
  }
  const names = order ?? [...found.keys()].sort((a, b) => (a === "") - (b === "") || (a < b ? -1 : 1));
  return names.filter((name) => found.has(name)).map((name) => {
    const inIt = found.get(name).sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
    return {name, nodes: inIt, label: `${name || without} · ${count(inIt.length, "node")}`};
  });
}

/** Ways to put nodes into sections: what is read of a node, and how those that do not say it are called. */
export const SECTIONS = {"": [() => "", "all nodes"], group: [(node) => node.group, "no node group"], zone: [(node) => node.zone, "no zone"]};

export function gapOf(width) {
  return width >= 96 ? 10 : width >= 40 ? 6 : width >= 20 ? 3 : 2;
}

/**
 * Lay out `sections` ([{name, nodes: [...]}]) in a width; a height that they should fit if they can.
 * Boxes of a size that can be read on a phone are kept even where the map then scrolls.
 */
export function layOut(sections, width, height, smallest = 11) {
  const sizes = SIZES.filter(([w]) => w >= smallest && w <= Math.max(width, 60));
  for (const [w, h] of sizes) {
    const made = withSize(sections, width, w, h);
    if (made.height <= height || w === sizes[sizes.length - 1][0]) return made;
  }
  return withSize(sections, width, ...SIZES[SIZES.length - 1]);
}

function withSize(sections, width, w, h) {
  const gap = gapOf(w);
  const columns = Math.max(1, Math.floor((width + gap) / (w + gap)));
  const placed = [];
  const boxes = new Map();
  let y = 0;
  for (const section of sections) {
    const rows = Math.ceil(section.nodes.length / columns);
    const top = y + HEAD;
    section.nodes.forEach((name, i) => {
      boxes.set(name, {x: (i % columns) * (w + gap), y: top + Math.floor(i / columns) * (h + gap), name});
    });
    const bottom = top + Math.max(0, rows * (h + gap) - gap);
    placed.push({name: section.name, label: section.label, y, top, bottom, nodes: section.nodes});
    y = bottom + AFTER + gap;
  }
  return {sections: placed, boxes, w, h, gap, columns, width, height: y};
}

/** The node whose box is at a place, "" for none. */
export function nodeAt(made, x, y) {
  for (const section of made.sections) {
    if (y < section.top || y > section.bottom) continue;
    const column = Math.floor(x / (made.w + made.gap));
    const line = Math.floor((y - section.top) / (made.h + made.gap));
    if (column < 0 || column >= made.columns) return "";
    if (x - column * (made.w + made.gap) > made.w || y - section.top - line * (made.h + made.gap) > made.h) return "";
    return section.nodes[line * made.columns + column] ?? "";
  }
  return "";
}

/** The node that an arrow key leads to; "" where there is none. */
export function neighbour(made, name, key) {
  const order = made.sections.flatMap((section) => section.nodes);
  const at = order.indexOf(name);
  if (at < 0) return order[0] ?? "";
  if (key === "ArrowRight") return order[at + 1] ?? name;
  if (key === "ArrowLeft") return order[at - 1] ?? name;
  if (key === "Home") return order[0];
  if (key === "End") return order[order.length - 1];
  const box = made.boxes.get(name);
  const down = key === "ArrowDown";
  let best = name;
  let bestAt = Infinity;
  for (const other of made.boxes.values()) {
    const dy = down ? other.y - box.y : box.y - other.y;
    if (dy <= 0) continue;
    const far = dy * 10000 + Math.abs(other.x - box.x);
    if (far < bestAt) {
      bestAt = far;
      best = other.name;
    }
  }
  return best;
}

/**
 * How the pods of a node fill its box, from the bottom: [{pod, y, height}], heights in pixels of `inner`.
 * The most important, or those of the highest `rank`, are at the bottom. Each is as high as its share of what the node has least of, and at least
 * high enough to be seen; one that has the node to itself fills it.
 */
export function stack(node, inner, least) {
  const pods = [...node.pods.values()].sort((a, b) => (b.rank ?? 0) - (a.rank ?? 0) || b.priority - a.priority || (a.key < b.key ? -1 : 1));
  if (!pods.length) return [];
  const atLeast = Math.min(least, inner / pods.length);
  const heights = pods.map((pod) => {
    const share = pod.exclusive ? 1 : Math.max(node.cpu ? pod.cpu / node.cpu : 0, node.memory ? pod.memory / node.memory : 0);
    return Math.max(share * inner, atLeast);
  });
  const total = heights.reduce((sum, one) => sum + one, 0);
  const scale = total > inner ? inner / total : 1;
  let y = inner;
  return pods.map((pod, i) => {
    const height = heights[i] * scale;
    y -= height;
    return {pod, y, height};
  });
}
