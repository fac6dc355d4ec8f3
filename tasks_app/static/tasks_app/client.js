/* A client's page: the plot of what it has had. */
"use strict";

(() => {
  const place = document.getElementById("plot-usage");
  if (!place) return;
  const days = JSON.parse(place.dataset.days);
  let chart = null;

  function draw() {
    const css = getComputedStyle(document.documentElement);
    const [ink, line, faint, other] = ["--accent", "--line", "--faint", "--color-primary-300"].map((name) => css.getPropertyValue(name).trim());
    const bars = { borderRadius: 3, maxBarThickness: 18 };
    /* Anew each time: bars that were not stacked when they were made stay where they were. */
    chart?.destroy();
    chart = new Chart(place, {
      type: "bar",
      data: { labels: days.at, datasets: [
        { label: "in", data: days.input, backgroundColor: other, ...bars }, { label: "out", data: days.output, backgroundColor: ink, ...bars }] },
      options: { animation: false, maintainAspectRatio: false, responsive: true, interaction: { mode: "index", intersect: false },
        plugins: { legend: { display: true, align: "end", labels: { color: faint, boxWidth: 10, boxHeight: 10 } } },
        scales: { x: { stacked: true, grid: { display: false }, border: { color: line }, ticks: { color: faint, maxTicksLimit: 8, maxRotation: 0 } },
          y: { stacked: true, beginAtZero: true, suggestedMax: 10, grid: { color: line }, border: { display: false }, ticks: { color: faint, maxTicksLimit: 5, precision: 0 } } } },
    });
  }
  draw();
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["class"] });
})();
