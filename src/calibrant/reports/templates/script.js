"use strict";
// Everything is readable without this: it sorts the tables of classes, and opens what a print would hide.
const sortKey = (cell) => {
  const text = cell.textContent.trim();
  const value = Number(text.replace(/,/g, ""));
  return text === "" || Number.isNaN(value) ? text : value;
};
const isMissing = (key) => key === "–";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const body = table.tBodies[0];
      const up = head.getAttribute("aria-sort") === "descending" || (column === 0 && !head.hasAttribute("aria-sort"));
      const rows = [...body.rows].map((row) => [sortKey(row.cells[column]), row]);
      rows.sort(([a], [b]) => {
        if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
        return up ? order : -order;
      });
      body.append(...rows.map(([, row]) => row));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
  });
}
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not(.term, .data)")) details.open = true;
});
