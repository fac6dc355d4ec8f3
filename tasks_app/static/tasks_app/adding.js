/* Models that are being added: how far each is, for as long as one is not done. */
"use strict";

(() => {
  const panel = document.getElementById("additions");
  if (!panel || !panel.querySelector(".state.running")) return;

  function show({ key, state, part, note, page }) {
    const row = panel.querySelector(`[data-addition="${key}"]`);
    if (!row) return;
    const cell = (name) => row.querySelector(`[data-cell=${name}]`);
    cell("state").textContent = state;
    cell("state").className = `state ${state}`;
    cell("part").value = part;
    cell("part").hidden = state !== "running";
    cell("note").textContent = note;
    cell("page").href = page;
    cell("page").hidden = !page;
  }

  async function look() {
    try {
      const answer = await fetch(panel.dataset.progress);
      /* Whoever was signed out is sent to the login page, which has nothing to tell. */
      if (!answer.ok || answer.redirected) return;
      const { additions } = await answer.json();
      additions.forEach(show);
      if (!additions.some(({ state }) => state === "running")) return;
    } catch {
      /* The service is being restarted, perhaps. */
    }
    setTimeout(look, 1000);
  }
  setTimeout(look, 500);
})();
