/* The dashboard: fills itself from the frames `present`, `standing` and `plots` of its socket. */
"use strict";

(() => {
  const page = document.getElementById("dashboard");
  if (!page) return;
  const by = (id) => document.getElementById(id);
  const say = (id, text) => { const element = by(id); if (element.textContent !== text) element.textContent = text; };
  const task = (id) => `${page.dataset.tasks}${encodeURIComponent(id)}/change/`;
  const cards = new Map();
  let span = "hour";
  let plots = null;
  let configured = null;

  function present({ queue, running, fault }) {
    if (fault) return;
    say("tile-running", String(running.length));
    const waiting = ["interactive", "normal", "batch"].map((name) => ({ name, ...queue[name] }));
    say("tile-waiting", waiting.reduce((sum, each) => sum + each.tasks, 0).toLocaleString("en"));
    const oldest = Math.max(...waiting.map((each) => each.oldest_seconds || 0));
    say("tile-oldest", oldest ? `the oldest for ${lasting(oldest)}` : "nothing waits");
    say("tile-rate", short(running.reduce((sum, each) => sum + each.tokens_per_second, 0)));
    if (configured !== null) say("tile-workers", `of ${configured} at once`);
    by("queue").replaceChildren(...waiting.map((each) => made("tr", "", null,
      made("td", "", each.name), made("td", "right", each.tasks.toLocaleString("en")),
      made("td", "right", each.oldest_seconds ? lasting(each.oldest_seconds) : "–"))));
    showRunning(running);
  }

  function showRunning(running) {
    const place = by("running");
    for (const [id, card] of cards) {
      if (!running.some((each) => each.id === id)) { card.element.remove(); cards.delete(id); }
    }
    if (running.length && !cards.size) place.replaceChildren();
    for (const each of running) {
      if (!cards.has(each.id)) { const card = cardOf(each); cards.set(each.id, card); place.append(card.element); }
      const card = cards.get(each.id);
      showState(card.state, each.status);
      card.tokens.textContent = `${each.output_tokens.toLocaleString("en")} tokens`;
      card.rate.textContent = `${short(each.tokens_per_second)} / s`;
      card.seconds.textContent = each.seconds == null ? "" : lasting(each.seconds);
      card.note.textContent = each.note;
      if (card.text.textContent !== each.text) {
        card.text.textContent = each.text || "…";
        card.text.scrollTop = card.text.scrollHeight;
      }
    }
    if (!running.length) {
      const idle = made("p", "idle", "Nothing runs. New tasks show here as soon as they are claimed; on its page a model can be tried.");
      if (!place.querySelector(".idle")) place.replaceChildren(idle);
    }
  }

  function cardOf(each) {
    const link = made("a", "code", `…${each.id.slice(-10)}`);
    link.href = task(each.id);
    const parts = { state: made("span", "state"), tokens: made("span", "number"), rate: made("span", "number"),
      seconds: made("span", "faint"), note: made("span", "faint"), text: made("p", "tail") };
    const head = made("div", "card-head", null, parts.state, link, made("strong", "", each.client), made("span", "faint", each.model));
    const figures = made("div", "card-figures", null, parts.tokens, parts.rate, parts.seconds, parts.note);
    return { element: made("article", "card", null, head, figures, parts.text), ...parts };
  }

  function standing(state) {
    if (state.fault) { pill("warn", state.fault); return; }
    const faults = Object.values(state.ready).filter(Boolean);
    const remarks = Object.values(state.remarks);
    pill(faults.length ? "bad" : remarks.length ? "warn" : "good", faults.length ? "not ready" : remarks.length ? "ready, with a remark" : "ready");
    by("faults").hidden = !faults.length && !remarks.length;
    by("faults").replaceChildren(...faults.map((text) => made("li", "bad", text)), ...remarks.map((text) => made("li", "warn", text)));
    const { service, storage, forecast, retention } = state;
    configured = state.workers_configured;
    say("identity", `${service.name} · version ${service.version} · LMSP ${service.protocol_version} · ${service.id}`);
    say("tile-disk", sized(storage.free_bytes));
    say("tile-reserve", `${sized(storage.reserve_bytes)} in reserve`);
    by("models").replaceChildren(...(state.models.length ? state.models.map(modelOf) : [made("p", "idle", "There is no model yet. Models, in the menu, has a page that adds one; Model pulls brings one from the hub.")]));
    facts("storage", [
      ["Database", `${sized(storage.database_bytes)}${storage.wal_bytes ? `, and ${sized(storage.wal_bytes)} of write-ahead log` : ""}`],
      ["Kept for", `${retention.days} days; the oldest finished task is ${forecast.days_kept} days old`],
      ["Forecast", forecast.bytes == null ? "not yet: the oldest task is younger than an hour" : `${sized(forecast.bytes)} once tasks are as old as they become`],
      ["Models", sized(storage.models_bytes)], ["Checkpoints", sized(storage.checkpoints_bytes)],
      ["Free", `${sized(storage.free_bytes)}; below ${sized(storage.reserve_bytes)} new work is refused`],
    ]);
    facts("health", [
      ...Object.entries(state.ready).map(([name, fault]) => [name === "runner" ? "Engine host and workers" : name[0].toUpperCase() + name.slice(1), fault || "well"]),
      ["Workers", `${state.workers} of ${state.workers_configured} live`],
      ["Up for", state.started_at ? lasting(state.at - state.started_at) : "not known"],
      ["Supervisor", state.served_by ? `process ${state.served_by.pid}` : "none"],
      ["Data", service.data_dir],
    ]);
  }

  function pill(kind, text) {
    by("ready").className = `pill ${kind}`;
    say("ready", text);
  }

  function modelOf(model) {
    const state = made("span", `state ${model.state === "ready" ? "completed" : model.state === "file missing" ? "failed" : "queued"}`, model.state);
    const told = [sized(model.size_bytes)];
    if (model.memory_bytes) told.push(`${sized(model.memory_bytes)} in memory`);
    if (model.slots) told.push(`${model.busy_slots ?? 0} of ${model.slots} slots busy`, `context ${model.context_length.toLocaleString("en")}`);
    return made("div", "row", null, made("strong", "", model.id), state, made("span", "faint", told.join(" · ")));
  }

  function facts(id, pairs) {
    by(id).replaceChildren(...pairs.flatMap(([name, value]) => [made("dt", "", name), made("dd", "", value)]));
  }

  function drawn(frame) {
    if (frame.fault) return;
    plots = frame;
    const minutes = frame.hour.tasks_per_minute;
    say("tile-finished", minutes.length ? Math.round(minutes.reduce((sum, each) => sum + each, 0)).toLocaleString("en") : "–");
    say("tile-failed", frame.failures.reduce((sum, each) => sum + each.count, 0).toLocaleString("en"));
    by("failures").replaceChildren(...(frame.failures.length ? frame.failures.map((each) => made("div", "row", null,
      made("strong", "", each.code), made("span", "state failed", each.count.toLocaleString("en")), made("span", "faint", each.meaning)))
      : [made("p", "idle", "No task has failed.")]));
    draw();
  }

  const charts = {};
  function draw() {
    if (!plots) return;
    const series = plots[span];
    const labels = series.at.map((at) => new Date(at * 1000).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false }));
    plot("plot-tokens", labels, series.tokens_per_second, "line");
    plot("plot-tasks", labels, series.tasks_per_minute, "bar");
  }

  function plot(id, labels, values, type) {
    const css = getComputedStyle(document.documentElement);
    const [ink, line, faint] = ["--accent", "--line", "--faint"].map((name) => css.getPropertyValue(name).trim());
    const chart = charts[id] || (charts[id] = new Chart(by(id), { type, data: { labels: [], datasets: [{}] } }));
    chart.data.labels = labels;
    Object.assign(chart.data.datasets[0], { data: values, borderColor: ink, backgroundColor: type === "bar" ? ink : "transparent",
      borderWidth: type === "bar" ? 0 : 2, pointRadius: values.length < 3 ? 3 : 0, pointHitRadius: 12, tension: 0.3, borderRadius: 3, maxBarThickness: 14 });
    chart.options = { animation: false, maintainAspectRatio: false, responsive: true, interaction: { mode: "index", intersect: false },
      plugins: { legend: { display: false } },
      scales: { x: { grid: { display: false }, border: { color: line }, ticks: { color: faint, maxTicksLimit: 7, maxRotation: 0 } },
        y: { beginAtZero: true, suggestedMax: 1, grid: { color: line }, border: { display: false }, ticks: { color: faint, maxTicksLimit: 5 } } } };
    chart.update();
  }

  for (const button of page.querySelectorAll("[data-span]")) {
    button.addEventListener("click", () => {
      span = button.dataset.span;
      for (const each of page.querySelectorAll("[data-span]")) each.setAttribute("aria-pressed", String(each === button));
      draw();
    });
  }
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["class"] });
  const takers = { present, standing, plots: drawn };
  live("/admin/live/dashboard", (frame) => takers[frame.type]?.(frame), (what, why) => {
    if (what === "lost") pill("bad", "no connection to the service; trying again");
    if (what === "refused") pill("bad", why);
  });
})();
