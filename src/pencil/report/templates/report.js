"use strict";
// Tables are sorted by the buttons in their headers. The page is readable without this script.
const direction = { ascending: 1, descending: -1 };

function compare(first, second) {
  const [a, b] = [first, second].map((cell) => cell.dataset.value);
  if (a !== undefined && b !== undefined) return Number(a) - Number(b);
  return first.textContent.localeCompare(second.textContent, undefined, { numeric: true });
}

function sort(table, head, status) {
  const column = head.cellIndex;
  const first = head.classList.contains("figure") ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const way = head.getAttribute("aria-sort") === first ? other : first;
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", way);
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => direction[way] * compare(a.cells[column], b.cells[column]));
  body.append(...rows);
  status.textContent = `Sorted by ${head.textContent.trim()}, ${way}.`;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const status = document.getElementById(table.dataset.status);
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head, status));
  }
}

for (const form of document.querySelectorAll(".find")) {
  const input = form.querySelector("input");
  const rows = [...document.getElementById(input.getAttribute("aria-controls")).tBodies[0].rows];
  form.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLocaleLowerCase();
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLocaleLowerCase().includes(wanted);
    const left = rows.filter((row) => !row.hidden).length;
    form.querySelector("output").textContent = wanted ? `${left} of ${rows.length} classes` : "";
  });
}

// Only elements that scroll need keyboard focus.
const frames = [...document.querySelectorAll(".scroll, pre")];
function reach() {
  for (const frame of frames) {
    if (frame.scrollWidth > frame.clientWidth || frame.scrollHeight > frame.clientHeight) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  }
}
reach();
addEventListener("resize", reach);
document.addEventListener("toggle", reach, true);
