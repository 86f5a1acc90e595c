"use strict";
// Everything is readable without this: it sorts the tables of classes, copies commands, and saves figures and
// their numbers.
const button = (text, label, act) => {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "tool";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", () => act(made));
  return made;
};
const said = (made, text) => {
  const before = made.textContent;
  made.textContent = text;
  setTimeout(() => { made.textContent = before; }, 1500);
};
const copied = (text) => {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy"); // also where a page from a file has no clipboard
  area.remove();
  return done;
};
for (const block of document.querySelectorAll("pre[data-copy]")) {
  const text = block.textContent.trim();
  block.append(button("Copy", "Copy the command", async (made) => {
    try { await navigator.clipboard.writeText(text); said(made, "Copied"); } catch { said(made, copied(text) ? "Copied" : "Select it"); }
  }));
}
const save = (name, text, type) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "figure";
const INK = {
  "--ink": "#1b1f24", "--blue": "#0072b2", "--vermillion": "#bb4b00", "--green": "#00805d", "--pink": "#b8609a",
  "--ochre": "#a87400", "--sky": "#3d8fc4", "--grey": "#808080",
};
const alone = (svg) => { // a figure for a paper is dark on white, whatever the page is
  const copy = svg.cloneNode(true);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  const added = { width: `${width}pt`, height: `${height}pt`, fill: INK["--ink"], "font-family": "sans-serif", "stroke-linejoin": "round" };
  for (const [name, value] of Object.entries(added)) copy.setAttribute(name, value);
  const text = new XMLSerializer().serializeToString(copy).replace(/var\((--[a-z]+)\)/g, (all, name) => INK[name] ?? all);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`;
};
const figures = [...document.querySelectorAll("figure")].filter((figure) => figure.querySelector(":scope > svg"));
figures.forEach((figure, place) => {
  const caption = figure.querySelector("figcaption")?.firstChild?.textContent ?? figure.querySelector(":scope > svg").getAttribute("aria-label").split(".")[0];
  const name = `${String(place + 1).padStart(2, "0")}-${slug(caption)}`;
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.append(button("SVG", `Save this figure as SVG: ${name}`, () => save(`${name}.svg`, alone(figure.querySelector(":scope > svg")), "image/svg+xml")));
  if (figure.dataset.csv) tools.append(button("CSV", `Save its numbers as CSV: ${name}`, () => save(`${name}.csv`, figure.dataset.csv, "text/csv")));
  figure.append(tools);
});
const folded = () => document.querySelectorAll("details:is(.then, .printed):not([open])");
let opened = []; // on paper nobody can open them
addEventListener("beforeprint", () => { opened = [...folded()]; opened.forEach((each) => { each.open = true; }); });
addEventListener("afterprint", () => { opened.forEach((each) => { each.open = false; }); });
const sortKey = (cell) => {
  const text = cell.textContent.trim();
  const value = Number(text.replace(/,/g, ""));
  return text === "" || Number.isNaN(value) ? text : value;
};
const isMissing = (key) => key === "–";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const sorter = document.createElement("button");
    sorter.type = "button";
    sorter.append(...head.childNodes);
    head.append(sorter);
    sorter.addEventListener("click", () => {
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
