/* One task as it goes on: its text, state and log grow; at its end the page is loaded once more, whole. */
"use strict";

(() => {
  const page = document.getElementById("task");
  if (!page || page.dataset.finished) return;
  const text = document.getElementById("text");
  const log = document.getElementById("log");
  let after = Number(page.dataset.last);
  /* A button that was pressed leads somewhere by itself. */
  let leaving = false;
  document.addEventListener("submit", (event) => { leaving = !event.defaultPrevented; });

  function event(entry) {
    after = entry.sequence_number;
    if (entry.type === "response.output_text.delta") {
      const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
      text.append(entry.delta);
      if (atEnd) text.scrollTop = text.scrollHeight;
    }
    /* A retry begins anew. */
    if (entry.type === "response.queued") text.textContent = "";
    if (log.dataset.follows) {
      const { type, sequence_number: number, ...fields } = entry;
      const data = JSON.stringify(type === "response.output_text.delta" ? fields.delta : fields);
      log.querySelector(".idle")?.closest("tr").remove();
      log.append(made("tr", "", null, made("td", "right", String(number)), made("td", "", type), made("td", "code data", data.length > 300 ? `${data.slice(0, 300)}…` : data)));
      while (log.rows.length > 200) log.rows[0].remove();
      const box = log.closest(".tall");
      if (box.scrollHeight - box.scrollTop - box.clientHeight < 120) box.scrollTop = box.scrollHeight;
    }
  }

  function task(row) {
    showState(page.querySelector("[data-cell=status]"), row.status);
    page.querySelector("[data-cell=note]").textContent = row.note;
    page.querySelector("[data-cell=output_tokens]").textContent = row.output_tokens.toLocaleString("en");
  }

  text.scrollTop = text.scrollHeight;
  live(() => `/admin/live/tasks/${encodeURIComponent(page.dataset.id)}?after=${after}`, (said) => {
    if (said.event) event(said.event);
    if (said.task) task(said.task);
  }, (what) => { if (what === "done" && !leaving) location.reload(); });
})();
