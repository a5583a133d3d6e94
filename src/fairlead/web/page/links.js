// Addresses within the page, and links to them. The address is the state: whoever opens it sees the same.

import {bare} from "./format.js";
import {h} from "./dom.js";

/** The place that an address names: {view, path: [...], query: {...}}. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return {view: parts[0] || "map", path: parts.slice(1), query: Object.fromEntries(new URLSearchParams(query))};
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function address({view, path = [], query = {}}) {
  const said = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const search = said.length ? `?${new URLSearchParams(said)}` : "";
  return `#/${[view, ...path].map(encodeURIComponent).join("/")}${search}`;
}

/** Put other values into the address, in place: going back leads to another view, not to each keystroke. */
export function change(query) {
  const here = parse(location.hash);
  history.replaceState(null, "", address({...here, query: {...here.query, ...query}}));
}

export function podLink(key, text = bare(key)) {
  return h("a", {href: podAddress(key), title: key}, text);
}

export function podAddress(key) {
  return address({view: "pods", path: key.split("/")});
}

export function nodeLink(name) {
  return h("a", {href: address({view: "map", query: {node: name}})}, name);
}

export function gangLink(name) {
  return h("a", {href: address({view: "queue", query: {gang: name}})}, name);
}

export function policyLink(name) {
  return h("a", {href: address({view: "policies", query: {policy: name}})}, name);
}
