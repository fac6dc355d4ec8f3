/* The list of tasks: the states, tokens and notes of the rows as they change. */
"use strict";

(() => {
  const cells = new Map();
  for (const mark of document.querySelectorAll("[data-row]")) cells.set(mark.dataset.row, mark.closest("tr"));
  if (!cells.size) return;
  const open = [...cells].filter(([, row]) => !row.querySelector(".state.completed, .state.failed, .state.cancelled"));
  const ids = open.map(([id]) => id);
  /* The first page of all tasks tells how many have come since; what a filter would show of them is not known. */
  const newest = location.search ? "" : [...cells.keys()][0];
  if (!ids.length && !newest) return;
  live(`/admin/live/tasks?ids=${encodeURIComponent(ids.length ? ids.join(",") : newest)}&newest=${encodeURIComponent(newest)}`, ({ rows = [], newer = 0 }) => {
    if (newer) {
      const place = document.getElementById("newer");
      place.hidden = false;
      place.textContent = newer === 1 ? "1 new task" : newer < 100 ? `${newer} new tasks` : "100 new tasks and more";
    }
    for (const row of rows) {
      const place = cells.get(row.id);
      showState(place.querySelector("[data-cell=status]"), row.status);
      for (const name of ["output_tokens", "took", "note"]) place.querySelector(`[data-cell=${name}]`).textContent = String(row[name]);
    }
  });
})();
