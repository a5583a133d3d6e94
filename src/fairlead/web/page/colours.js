// Colours of pods. Seven hues that people with any kind of colour vision tell apart (after Okabe and Ito), a ramp
// from light to dark for priorities, and grey for all others.

const HUES = {
  light: ["#0072b2", "#d98e04", "#009e73", "#c65f9e", "#56b4e9", "#c8500a", "#7a5fb0"],
  dark: ["#4aa3df", "#f0b23e", "#2fc59a", "#e08cc0", "#8fd0f5", "#f0834a", "#a993dd"],
};
const RAMP = {
  light: ["#c3d0e0", "#a2bad6", "#81a5cc", "#6190c1", "#437bb4", "#2a65a3", "#194f87", "#0d3a6b"],
  dark: ["#46566b", "#4e6785", "#5578a0", "#5f8cba", "#74a6d5", "#95c1e9", "#b8d8f5", "#dcefff"],
};
export const OTHER = {light: "#9aa5b1", dark: "#6b7785"};

/** What becomes of a pod in a what-if: its colours, how it is called, and a sign for those that cannot tell colours. */
export const BECOMES = {
  stays: {light: "#b4bfca", dark: "#4d5b69", label: "stays", sign: "", state: "", rank: 3},
  comes: {light: "#0072b2", dark: "#4aa3df", label: "comes", sign: "+", state: "coming", rank: 2},
  evicted: {light: "#c8500a", dark: "#f0834a", label: "evicted", sign: "−", state: "leaving", rank: 1},
  moved: {light: "#7a5fb0", dark: "#a993dd", label: "moved to its tier", sign: "⇄", state: "leaving", rank: 1},
  goes: {light: "#d98e04", dark: "#f0b23e", label: "removed", sign: "−", state: "leaving", rank: 1},
};

/** Colours of pods by what becomes of them, as the map wants them. */
export class DifferenceColours {
  constructor() {
    this.refresh();
  }

  refresh() {
    this.theme = isDark() ? "dark" : "light";
  }

  colour(pod) {
    return BECOMES[pod.becomes][this.theme];
  }
}

export function isDark() {
  const said = document.documentElement.dataset.theme;
  return said ? said === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Ways to colour pods: name → what it is called, and what it reads of a pod. */
export const WAYS = {
  priority: {label: "priority", of: (pod) => pod.priority},
  gang: {label: "gang", of: (pod) => pod.gang},
  workload: {label: "workload", of: (pod) => pod.workload},
  namespace: {label: "namespace", of: (pod) => pod.key.slice(0, pod.key.indexOf("/"))},
};

/**
 * Which colour each value has. The most common values get the hues, and keep them while they are among those:
 * a colour that changes its meaning while one looks is worse than a second-best choice.
 */
export class Colours {
  constructor(way) {
    this.way = way;
    this.of = WAYS[way].of;
    this.counts = new Map();
    this.place = new Map(); // value → number of its hue
    this.refresh();
  }

  /** Count again; true: some value has another colour now. */
  recount(pods) {
    const counts = new Map();
    for (const pod of pods) {
      const value = this.of(pod);
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    this.counts = counts;
    const before = JSON.stringify([...this.place]);
    if (this.way === "priority") {
      const values = [...counts.keys()].sort((a, b) => a - b);
      const last = RAMP.light.length - 1;
      this.place = new Map(values.map((value, i) => [value, values.length === 1 ? 3 : Math.round((i * last) / (values.length - 1))]));
    } else {
      const common = [...counts.entries()].filter(([value]) => value !== "").sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
      const chosen = common.slice(0, HUES.light.length).map(([value]) => value);
      const kept = new Map([...this.place].filter(([value]) => chosen.includes(value)));
      const free = HUES.light.map((_, i) => i).filter((i) => ![...kept.values()].includes(i));
      for (const value of chosen) if (!kept.has(value)) kept.set(value, free.shift());
      this.place = kept;
    }
    return JSON.stringify([...this.place]) !== before;
  }

  /** The theme may be another. */
  refresh() {
    const theme = isDark() ? "dark" : "light";
    this.hues = this.way === "priority" ? RAMP[theme] : HUES[theme];
    this.other = OTHER[theme];
  }

  colour(pod) {
    return this.ofValue(this.of(pod));
  }

  ofValue(value) {
    const place = this.place.get(value);
    return place === undefined ? this.other : this.hues[place];
  }

  /** What the legend shows: value, label, colour, number of pods; the rest is one entry. */
  legend() {
    const shown = [...this.place.keys()].filter((value) => this.counts.get(value));
    if (this.way === "priority") shown.sort((a, b) => b - a);
    else shown.sort((a, b) => this.counts.get(b) - this.counts.get(a));
    const found = shown.map((value) => ({value, label: String(value), colour: this.ofValue(value), pods: this.counts.get(value)}));
    let rest = 0;
    for (const [value, pods] of this.counts) if (!this.place.has(value)) rest += pods;
    if (this.way === "priority" && found.length > 8) {
      const more = found.splice(7);
      found.push({value: null, label: `${more.length} lower`, colour: more[more.length - 1].colour, pods: more.reduce((sum, one) => sum + one.pods, 0)});
    }
    if (rest) {
      const none = this.counts.get("") ?? 0;
      const label = rest === none ? `no ${WAYS[this.way].label}` : "others";
      found.push({value: null, label, colour: this.other, pods: rest});
    }
    return found;
  }
}
