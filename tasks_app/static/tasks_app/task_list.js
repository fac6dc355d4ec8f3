/* The list of tasks: the states, tokens and notes of the rows as they change. */
"use strict";

(() => {
  const cells = new Map();
  for (const mark of document.querySelectorAll("[data-row]")) cells.set(mark.dataset.row, mark.closest("tr"));
  if (!cells.size) return;
  const open = [...cells].filter(([, row]) => !row.querySelector(".state.completed, .state.failed, .state.cancelled"));
  if (!open.length) return;
  const ids = open.map(([id]) => id).join(",");
  live(`/admin/live/tasks?ids=${encodeURIComponent(ids)}`, ({ rows = [] }) => {
    for (const row of rows) {
      const place = cells.get(row.id);
      showState(place.querySelector("[data-cell=status]"), row.status);
      for (const name of ["output_tokens", "took", "note"]) place.querySelector(`[data-cell=${name}]`).textContent = String(row[name]);
    }
  });
})();
