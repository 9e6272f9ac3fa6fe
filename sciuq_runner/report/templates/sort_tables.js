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
