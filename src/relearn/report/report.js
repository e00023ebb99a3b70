"use strict";
// Tables sort by a click on a head; the table of all claims shows one verdict; printing opens what is folded.
const key = cell => {
  const told = cell.dataset.sort ?? cell.textContent.trim();
  const number = parseFloat(told.replaceAll(",", ""));
  return Number.isNaN(number) ? told : number;
};
const order = (a, b) => typeof a === typeof b
  ? (typeof a === "number" ? a - b : a.localeCompare(b))
  : (typeof a === "number" ? -1 : 1);
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      table.querySelectorAll(".again").forEach(name => name.classList.remove("again"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].filter(row => !row.classList.contains("sum"));
      rows.sort((a, b) => (down ? -1 : 1) * order(key(a.cells[column]), key(b.cells[column])));
      body.prepend(...rows);
    });
  });
}
const chosen = document.getElementById("verdicts");
if (chosen) {
  const rows = [...document.querySelectorAll("#scoreboard tbody tr")];
  chosen.addEventListener("change", () => {
    for (const row of rows) row.hidden = chosen.value !== "" && row.dataset.verdict !== chosen.value;
    document.getElementById("found").textContent = `${rows.filter(row => !row.hidden).length} claims`;
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(one => { one.open = true; }));
