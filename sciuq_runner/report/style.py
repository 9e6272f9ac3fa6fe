"""How the page looks, and the few lines that sort its tables."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b2430; --soft: #5d6978; --line: #dfe4ea; --paper: #ffffff; --tint: #f5f7f9; --accent: #0067a3;
  --best: #e3f1fa;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --soft: #9aa6b4; --line: #323b46; --paper: #14191f; --tint: #1c232b; --accent: #6cb8ea;
          --best: #17344a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 92rem; padding: 2.5rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
       font: 15px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0; font-size: 1.75rem; line-height: 1.25; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { margin: 3.2rem 0 0.2rem; padding-top: 1.4rem; border-top: 1px solid var(--line); font-size: 1.35rem; }
h3 { margin: 2rem 0 0.5rem; font-size: 1rem; }
h3 code { margin-left: 0.3rem; color: var(--soft); font-weight: 400; }
p { margin: 0.4rem 0; max-width: 62rem; }
a { color: var(--accent); }
.soft, figcaption { color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; margin-top: 1rem; }
code, .number { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
                font-size: 0.87em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 30rem; }
th, td { padding: 0.34rem 0.65rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: baseline;
         white-space: nowrap; }
th { border-bottom: 2px solid var(--line); font-weight: 600; }
tr > :first-child { position: sticky; left: 0; background: var(--paper); }
tbody tr:hover, tbody tr:hover > :first-child { background: var(--tint); }
.number { text-align: right; white-space: pre; font-variant-numeric: tabular-nums; }
th.number { font-family: inherit; font-size: inherit; }
.best { background: var(--best); font-weight: 700; }
th button { all: unset; position: relative; cursor: pointer; }
th button:hover { color: var(--accent); }
th button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
th button::after { position: absolute; left: 100%; padding-left: 0.15em; color: var(--accent); }
th[aria-sort=ascending] button::after { content: "\\25B4"; }
th[aria-sort=descending] button::after { content: "\\25BE"; }
svg { display: block; width: 100%; max-width: 54rem; height: auto; font-size: 12px; fill: var(--ink); }
svg .grid { stroke: var(--line); }
svg .front { fill: none; stroke: var(--accent); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .spread { stroke: var(--soft); opacity: 0.55; }
svg .point { fill: var(--paper); stroke: var(--soft); stroke-width: 1.5; }
svg .point.on { fill: var(--accent); stroke: var(--accent); }
svg text.soft { fill: var(--soft); }
svg .name { paint-order: stroke; stroke: var(--paper); stroke-width: 5px; stroke-linejoin: round; }
svg .name.on { font-weight: 700; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 1.2rem; }
figure { margin: 0; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px;
             background: #fff; }
figcaption { margin-top: 0.3rem; font-size: 0.9rem; text-align: center; overflow-wrap: anywhere; }
@media print {
  :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --paper: #fff; --tint: #fff; --accent: #0067a3;
          --best: #e8e8e8; }
  @page { size: landscape; margin: 12mm; }
  html { font-size: 10px; }
  body { max-width: none; padding: 0; font-size: 1rem; }
  h2, h3 { break-after: avoid; }
  tr, svg { break-inside: avoid; }
  nav, .screen, th button::after { display: none; }
  tr > :first-child { position: static; }
  .wide { overflow: visible; }
  .figures { grid-template-columns: repeat(4, 1fr); }
}
"""

SCRIPT = """
"use strict";
const words = new Intl.Collator(undefined, {numeric: true});

function value(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  return text === "" || isNaN(text) ? text : Number(text);
}

function compare(a, b) {
  const numbers = (typeof a === "number") + (typeof b === "number");
  return numbers === 2 ? a - b : numbers === 1 ? (typeof a === "number" ? -1 : 1) : words.compare(a, b);
}

function sort(header) {
  const sign = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  const rows = [...header.closest("table").tBodies[0].rows].map(row => [value(row.cells[header.cellIndex]), row]);
  const empty = ([found]) => found === "";
  const full = rows.filter(row => !empty(row)).sort(([a], [b]) => sign * compare(a, b));
  header.closest("table").tBodies[0].append(...[...full, ...rows.filter(empty)].map(([, row]) => row));
}

for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => sort(button.closest("th")));
"""
