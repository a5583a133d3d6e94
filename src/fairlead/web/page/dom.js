// Elements without markup in strings: what users name their objects never becomes HTML.

/** An element: `h("a", {href: "#/map", class: "link"}, "Map")`. Properties that begin with "on" are listeners. */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, said] of Object.entries(value)) element.style.setProperty(key, said);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replace what is in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Set text only where it differs: what is unchanged is not painted, nor read out, again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tell users of screen readers something. */
export function announce(text) {
  setText(document.getElementById("said"), text);
}

/** Call at most once a frame, however often it is asked for. */
export function oncePerFrame(call) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      call();
    });
  };
}

/** Call at most so often; the last request is always served. */
export function atMostEvery(milliseconds, call) {
  let last = -Infinity;
  let timer = 0;
  const run = () => {
    timer = 0;
    last = performance.now();
    call();
  };
  const ask = () => {
    if (timer) return;
    const wait = last + milliseconds - performance.now();
    if (wait <= 0) run();
    else timer = setTimeout(run, wait);
  };
  ask.stop = () => clearTimeout(timer);
  return ask;
}
