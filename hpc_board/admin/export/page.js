"use strict";
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const ranked = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const numeric = head.classList.contains("number") || head.dataset.kind === "number";
    const key = (row) => row.cells[column].dataset.value;
    const compare = (one, other) => numeric ? key(one) - key(other) : key(one).localeCompare(key(other));
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      body.append(...[...ranked].sort((one, other) => sign * compare(one, other)));
    });
    head.replaceChildren(button);
  });
  heads[0].setAttribute("aria-sort", "ascending");
}
