/* Models, in their list and on the page of one: state, memory and speed as they change. */
"use strict";

(() => {
  const places = new Map();
  for (const mark of document.querySelectorAll("[data-model]")) places.set(mark.dataset.model, mark.closest("tr") || mark);
  if (!places.size) return;
  live("/admin/live/models", ({ models = [] }) => {
    for (const model of models) {
      const place = places.get(model.id);
      if (!place) continue;
      const cell = (name) => place.querySelector(`[data-cell=${name}]`);
      showState(cell("state"), model.reading ? "verifying" : model.state);
      cell("memory").textContent = model.memory_bytes == null ? "-" : sized(model.memory_bytes);
      cell("speed").textContent = model.tokens_per_second ?? "-";
      if (cell("note")) cell("note").textContent = model.note;
      else place.querySelector("[data-model]").title = model.note;
      const checked = cell("checked");
      if (checked) {
        checked.textContent = model.checked_at ? new Date(model.checked_at * 1000).toISOString().slice(0, 19).replace("T", " ") : "never";
        checked.dataset.at = model.checked_at ?? "";
      }
    }
  });
})();
