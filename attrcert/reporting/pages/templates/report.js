"use strict";
(() => {
  const table = document.getElementById("table"), body = table.tBodies[0];
  const rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells);
  const names = heads.map((head) => head.textContent.trim());
  const find = document.getElementById("find"), status = document.getElementById("status");
  const all = document.getElementById("all"), count = document.getElementById("count");
  const statusAt = names.indexOf("status");
  const texts = rows.map((row) => Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase());

  const key = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });

  const sort = (at) => {
    const up = heads[at].getAttribute("aria-sort") !== "ascending";
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== at ? "none" : up ? "ascending" : "descending"));
    const empty = (row) => row.cells[at].textContent === "";
    const order = rows.map((row, i) => [row, i]).sort(([a, i], [b, j]) => {
      if (empty(a) !== empty(b)) return empty(a) ? 1 : -1;
      return (up ? 1 : -1) * compare(key(a, at), key(b, at)) || i - j;
    });
    body.append(...order.map(([row]) => row));
  };

  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      const fits = words.every((word) => texts[i].includes(word)) && (!status.value || row.cells[statusAt].textContent === status.value);
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    count.textContent = `${shown} of ${rows.length} rows`;
  };

  heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => sort(at)));
  find.addEventListener("input", filter);
  status.addEventListener("change", filter);
  all.addEventListener("change", () => table.classList.toggle("all", all.checked));
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("controls").hidden = false;
  filter();
})();
