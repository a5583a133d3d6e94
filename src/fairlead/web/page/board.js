// The cluster as the browser has it: nodes, pods and what happened, kept up to date by deltas.
//
// Invariant: after `load` of a whole board and `apply` of every delta since, it is what the server has. Sums are
// kept up to date pod by pod, so that a change costs what it touches.

export const NODE = ["name", "zone", "group", "kind", "spot", "state", "cpu", "memory", "capacity", "price"];
export const POD = ["key", "node", "state", "priority", "gang", "workload", "scheduler", "cpu", "memory", "exclusive", "since"];
const LINE = ["number", "at", "kind", "about", "text", "node", "gang", "by"];
const LINES = 1000;

export function row(fields, values) {
  const found = {};
  for (let i = 0; i < fields.length; i += 1) found[fields[i]] = values[i];
  return found;
}

export class Board {
  constructor() {
    this.listeners = new Set();
    this.clear();
  }

  clear() {
    this.nodes = new Map();
    this.pods = new Map();
    this.homeless = new Map(); // pods on nodes that are not there yet, by the node's name
    this.waiting = new Map(); // pods without a node
    this.lines = []; // oldest first
    this.answers = null;
    this.at = 0;
    this.sums = {ready: 0, cordoned: 0, cpu: 0, memory: 0, usedCpu: 0, usedMemory: 0, price: 0, unpriced: 0, spot: 0, placed: 0, onSpot: 0};
    this.layout = 0; // counts changes that move boxes on the map
  }

  /** Take a whole board. */
  load(board) {
    this.clear();
    this.apply(board, true);
  }

  /** Take a delta; listeners receive the names of nodes that look different now. */
  apply(delta, whole = false) {
    const dirty = new Set();
    this.at = delta.at;
    for (const name of delta.gone_nodes ?? []) this.dropNode(name, dirty);
    for (const values of delta.nodes ?? []) this.putNode(row(NODE, values), dirty);
    for (const key of delta.gone_pods ?? []) this.dropPod(key, dirty);
    for (const values of delta.pods ?? []) this.putPod(row(POD, values), dirty);
    // A whole board may have lines already whose delta is yet to come.
    const known = this.lines.at(-1)?.number ?? 0;
    const lines = (delta.lines ?? []).map((values) => row(LINE, values)).filter((line) => line.number > known);
    if (lines.length) {
      this.lines.push(...lines);
      if (this.lines.length > LINES) this.lines.splice(0, this.lines.length - LINES);
    }
    this.tell({dirty, lines, whole});
  }

  /** Take what the engine says of the whole cluster. */
  answer(answers) {
    this.answers = answers;
    this.tell({dirty: new Set(), lines: [], answers: true});
  }

  tell(change) {
    for (const listener of [...this.listeners]) listener(change);
  }

  putNode(node, dirty) {
    const old = this.nodes.get(node.name);
    node.pods = old?.pods ?? this.homeless.get(node.name) ?? new Map();
    node.usedCpu = old?.usedCpu ?? 0;
    node.usedMemory = old?.usedMemory ?? 0;
    if (old) this.countNode(old, -1);
    else {
      this.homeless.delete(node.name);
      for (const pod of node.pods.values()) use(node, pod, 1);
    }
    this.nodes.set(node.name, node);
    this.countNode(node, 1);
    if (!old || old.zone !== node.zone || old.group !== node.group) this.layout += 1;
    dirty.add(node.name);
  }

  dropNode(name, dirty) {
    const old = this.nodes.get(name);
    if (!old) return;
    this.countNode(old, -1);
    if (old.pods.size) this.homeless.set(name, old.pods);
    this.nodes.delete(name);
    this.layout += 1;
    dirty.add(name);
  }

  putPod(pod, dirty) {
    this.takeAway(pod.key, dirty);
    this.pods.set(pod.key, pod);
    if (!pod.node) {
      this.waiting.set(pod.key, pod);
      return;
    }
    dirty.add(pod.node);
    const node = this.nodes.get(pod.node);
    if (!node) {
      if (!this.homeless.has(pod.node)) this.homeless.set(pod.node, new Map());
      this.homeless.get(pod.node).set(pod.key, pod);
      return;
    }
    node.pods.set(pod.key, pod);
    use(node, pod, 1);
    this.countPod(node, pod, 1);
  }

  dropPod(key, dirty) {
    this.takeAway(key, dirty);
    this.pods.delete(key);
  }

  takeAway(key, dirty) {
    const old = this.pods.get(key);
    if (!old) return;
    if (!old.node) {
      this.waiting.delete(key);
      return;
    }
    dirty.add(old.node);
    const node = this.nodes.get(old.node);
    if (!node) {
      this.homeless.get(old.node)?.delete(key);
      return;
    }
    node.pods.delete(key);
    use(node, old, -1);
    this.countPod(node, old, -1);
  }

  countNode(node, sign) {
    const sums = this.sums;
    sums.cpu += sign * node.cpu;
    sums.memory += sign * node.memory;
    if (node.state === "Ready") sums.ready += sign;
    if (node.state === "Cordoned") sums.cordoned += sign;
    if (node.spot) sums.spot += sign;
    if (node.price === null) sums.unpriced += sign;
    else sums.price += sign * node.price;
    for (const pod of node.pods.values()) this.countPod(node, pod, sign);
  }

  countPod(node, pod, sign) {
    const sums = this.sums;
    sums.placed += sign;
    sums.usedCpu += sign * pod.cpu;
    sums.usedMemory += sign * pod.memory;
    if (node.spot) sums.onSpot += sign;
  }
}

function use(node, pod, sign) {
  node.usedCpu += sign * pod.cpu;
  node.usedMemory += sign * pod.memory;
}

/** How full a node is of what it has least of. */
export function fillOf(node) {
  return Math.max(node.cpu ? node.usedCpu / node.cpu : 0, node.memory ? node.usedMemory / node.memory : 0);
}
