// Draws the charts of this file, in the colours of its style, and again when light and dark change.
// For whom no script runs, everything is in the tables.

const CHARTS = JSON.parse(document.getElementById("charts").textContent);
const CONFIG = {displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false};

/** A figure with the style's values for what names one: `var(--text)`. */
function resolved(value, style) {
  if (Array.isArray(value)) return value.map((each) => resolved(each, style));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, resolved(each, style)]));
  }
  const named = typeof value === "string" && /^var\((--[a-z0-9-]+)\)$/.exec(value);
  return named ? style.getPropertyValue(named[1]).trim() : value;
}

async function draw() {
  const style = getComputedStyle(document.documentElement);
  // A finger that scrolls the page must not choose a part of a chart.
  const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  for (const [place, {data, layout}] of CHARTS.entries()) {
    await Plotly.react(`chart-${place + 1}`, resolved(data, style), {...resolved(layout, style), dragmode}, CONFIG);
  }
  document.documentElement.dataset.drawn = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
