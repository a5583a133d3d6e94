// Changes that a what-if can make: how a user writes them, and what they are in an address, for the server and on a
// command line. There each is a pair of texts: its name, and what it is about, such as ["scale", "shop/web=12"].

/** By name: label, what the field asks for, which choices there are, and whether it takes a number or manifests. */
export const CHANGES = {
  drain: {label: "Drain a node", asks: "Node", choices: "nodes", hint: "Cordoned; its pods are evicted as disruption budgets allow."},
  "remove-node": {label: "Remove a node", asks: "Node", choices: "nodes", hint: "Gone at once, with its pods."},
  "add-nodes": {label: "Add nodes", asks: "Node group", choices: "groups", number: "How many", hint: "Like those of the group, ready at once."},
  "lose-tier": {label: "Lose a tier", asks: "Policy/tier", choices: "tiers", hint: "All of its nodes are gone, and no new ones can be had."},
  "lose-zone": {label: "Lose a zone", asks: "Zone", choices: "zones", hint: "All of its nodes are gone, and no new ones can be had."},
  scale: {label: "Scale a workload", asks: "Namespace/kind/name", choices: "workloads", number: "Replicas", hint: "Another number of replicas."},
  delete: {label: "Delete an object", asks: "Namespace/kind/name", choices: "workloads", hint: "And what it owns."},
  apply: {label: "Apply manifests", asks: "Manifests, YAML", manifests: true, hint: "Created or changed, as kubectl apply does."},
  policy: {label: "Use other policies", asks: "Placement policies, YAML", manifests: true, hint: "From the beginning, instead of those of their names."},
};

/** A change as the form has it. */
export function emptyChange(name = "drain") {
  return {name, what: "", number: "1"};
}

/** What it is about, as one text. */
export function textOf({name, what, number}) {
  return CHANGES[name].number ? `${what.trim()}=${number.trim()}` : CHANGES[name].manifests ? what : what.trim();
}

/** What cannot be right, whatever the cluster is; "" is nothing. */
export function problemOf({name, what, number}) {
  const {asks, number: asksNumber, manifests} = CHANGES[name];
  if (!what.trim()) return manifests ? "Paste the manifests." : `${asks} is missing.`;
  if (asksNumber && !/^\d+$/.test(number.trim())) return `${asksNumber}: write a whole number.`;
  return "";
}

/** Changes as pairs of texts: what the server is asked. */
export function pairsOf(changes) {
  return changes.map((one) => [one.name, textOf(one)]);
}

/** Pairs of texts as changes; null: they are none. */
export function changesOf(pairs) {
  if (!Array.isArray(pairs)) return null;
  const found = pairs.map((pair) => {
    if (!Array.isArray(pair) || pair.length !== 2 || !Object.hasOwn(CHANGES, pair[0]) || typeof pair[1] !== "string") return null;
    const [name, text] = pair;
    if (!CHANGES[name].number) return {name, what: text, number: "1"};
    const at = text.lastIndexOf("=");
    return {name, what: at < 0 ? text : text.slice(0, at), number: at < 0 ? "" : text.slice(at + 1)};
  });
  return found.includes(null) ? null : found;
}

/** The command that asks the same; manifests are written to files first. `flags` are those that name the cluster. */
export function commandOf(changes, flags) {
  const files = [];
  const words = ["fairlead", "whatif", ...flags.map(quoted)];
  changes.forEach((one, i) => {
    const text = textOf(one);
    if (!CHANGES[one.name].manifests) {
      words.push(`--${one.name}`, quoted(text));
      return;
    }
    const file = `change-${i + 1}.yaml`;
    let end = "EOF";
    while (text.split("\n").includes(end)) end += "_";
    files.push(`cat > ${file} <<'${end}'\n${text.replace(/\n*$/, "")}\n${end}\n`);
    words.push(`--${one.name}`, file);
  });
  return files.join("") + words.join(" ");
}

/** A word as a shell takes it. */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
