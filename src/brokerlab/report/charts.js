// Puts the live chart in the place of the static one as soon as it is drawn; otherwise the static one stays.
for (const [name, spec] of Object.entries(chartSpecs)) {
  const still = document.querySelector(`#chart-${name} .still`);
  const live = document.createElement("div");
  live.className = "live";
  vegaEmbed(live, spec, { mode: "vega-lite", renderer: "svg", actions: false })
    .then(() => still.replaceWith(live))
    .catch((problem) => console.error(`chart ${name}: ${problem}`));
}
