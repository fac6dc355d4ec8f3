/* The trial on a model's page: sends a text, and shows the answer of the task that this makes as it is written. */
"use strict";

(() => {
  const form = document.getElementById("try");
  if (!form) return;
  const by = (name) => document.getElementById(`try-${name}`);
  const [answer, figures, state, stop, go, link] = ["answer", "figures", "state", "stop", "go", "page"].map(by);
  let halt = "";

  const post = (address, body) => fetch(address, { method: "POST", body });
  const sent = () => new FormData(form);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    answer.textContent = figures.textContent = "";
    state.textContent = "sending …";
    go.disabled = true;
    link.hidden = true;
    try {
      const told = await (await post(form.action, sent())).json();
      if (told.page) { link.href = told.page; link.textContent = told.page_name; link.hidden = false; }
      if (told.error) { ended(told.error); return; }
      halt = told.stop;
      stop.hidden = false;
      follow(told.task_id);
    } catch {
      ended("The service did not take it. Load this page again: it may have restarted, or you may have been signed out.");
    }
  });
  stop.addEventListener("click", () => { post(halt, sent()); });

  function ended(text) {
    state.textContent = text;
    go.disabled = false;
    stop.hidden = true;
  }

  function follow(id) {
    let after = null, began = 0, last = 0, tokens = 0, end = "";
    const rate = () => {
      const seconds = (last - began) / 1000;
      figures.textContent = `${tokens.toLocaleString("en")} tokens${seconds > 0.05 && tokens > 1 ? `, ${short((tokens - 1) / seconds)} tokens/s` : ""}`;
    };
    live(() => `/admin/live/tasks/${encodeURIComponent(id)}${after === null ? "" : `?after=${after}`}`, ({ event, task }) => {
      if (task && !end) { state.textContent = task.note ? `${task.status}: ${task.note}` : task.status; }
      if (!event) return;
      after = event.sequence_number;
      if (event.type === "response.queued") { answer.textContent = ""; began = tokens = 0; }
      if (event.type === "response.output_text.delta") {
        last = performance.now();
        began ||= last;
        tokens += 1;
        answer.append(event.delta);
        answer.scrollTop = answer.scrollHeight;
        rate();
      }
      const usage = event.response?.usage;
      if (usage) { tokens = usage.output_tokens; rate(); }
      const status = event.response?.status;
      if (["completed", "incomplete", "failed", "cancelled"].includes(status)) {
        end = event.response.error ? `${status}: ${event.response.error.message}` : status;
        if (status === "incomplete") end = "completed, at as many tokens as it may have";
      }
    }, (what, why) => {
      if (what === "done") ended(end || "ended");
      if (what === "refused") ended(why);
      if (what === "lost") state.textContent = "no connection to the service; trying again";
    });
  }
})();
