/* What takes a while, such as a model that is added or pulled: how far each is, for as long as one is not done. */
"use strict";

(() => {
  const page = document.querySelector("[data-progress]");
  const places = new Map();
  for (const mark of document.querySelectorAll("[data-begun]")) places.set(mark.dataset.begun, mark.closest("tr") || mark);
  if (!page || ![...places.values()].some((place) => place.querySelector(".state.running"))) return;

  function show({ key, state, part, note, page: led }) {
    const place = places.get(key);
    if (!place) return;
    const cell = (name) => place.querySelector(`[data-cell=${name}]`);
    cell("state").textContent = state;
    cell("state").className = `state ${state}`;
    cell("part").value = part;
    cell("part").hidden = state !== "running";
    cell("note").textContent = note;
    if (!cell("page")) return;
    cell("page").href = led;
    cell("page").hidden = !led;
  }

  async function look() {
    try {
      const answer = await fetch(page.dataset.progress);
      /* Whoever was signed out is sent to the login page, which has nothing to tell. */
      if (!answer.ok || answer.redirected) return;
      const { begun } = await answer.json();
      begun.forEach(show);
      if (!begun.some(({ state }) => state === "running")) return;
    } catch {
      /* The service is being restarted, perhaps. */
    }
    setTimeout(look, 1000);
  }
  setTimeout(look, 500);
})();
