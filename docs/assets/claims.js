// The table of every test: filtered in the browser, from claims-tests.js beside the page.
(() => {
  const MOST = 100;
  const place = document.querySelector(".tests");
  if (!place || typeof TESTS === "undefined") return;
  const column = Object.fromEntries(TESTS.columns.map((name, number) => [name, number]));
  const [head, body] = [place.querySelector("thead"), place.querySelector("tbody")];
  const [search, status] = [place.querySelector("input"), place.querySelector("[role=status]")];
  const choices = [...place.querySelectorAll("select")];
  const number = (value) => (value === null ? "–" : String(+value.toPrecision(3)));
  const told = (row) => {
    const [first, second] = [row[column.compared], row[column.with]];
    const pair = first ? `${first} − ${second}` : "";
    return [
      row[column.paper], row[column.claim], row[column.setting],
      [pair, row[column.group]].filter(Boolean).join("; "),
      `${number(row[column.estimate])} (${number(row[column.low])} to ${number(row[column.high])})`,
      number(row[column.q]), row[column.verdict_by_q],
    ];
  };
  const line = (tag, cells) => {
    const row = document.createElement("tr");
    for (const cell of cells) {
      const made = row.appendChild(document.createElement(tag));
      made.textContent = cell;
      if (tag === "th") made.scope = "col";
    }
    return row;
  };
  const rows = TESTS.data.map((row) => ({ row, cells: told(row), text: told(row).join(" ").toLowerCase() }));
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    const found = rows.filter(
      ({ row, text }) =>
        words.every((word) => text.includes(word)) &&
        choices.every((each) => !each.value || row[column[each.dataset.column]] === each.value),
    );
    body.replaceChildren(...found.slice(0, MOST).map(({ cells }) => line("td", cells)));
    const rest = found.length > MOST ? `; the first ${MOST} are shown` : "";
    status.textContent = `${found.length} of ${rows.length} tests${rest}`;
  };
  for (const each of choices) {
    for (const value of [...new Set(TESTS.data.map((row) => row[column[each.dataset.column]]))].sort())
      each.append(new Option(value, value));
    each.addEventListener("change", show);
  }
  search.addEventListener("input", show);
  head.append(line("th", ["paper", "claim", "setting", "compared", "effect (95%)", "q", "verdict by q"]));
  place.hidden = false;
  show();
})();
