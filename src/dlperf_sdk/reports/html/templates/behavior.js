// -- dark and light

const toggle = document.getElementById("theme");
const system = window.matchMedia("(prefers-color-scheme: dark)");
const remembered = () => {
  try { return localStorage.getItem("dlperf-theme"); } catch { return null; }
};
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
const name = () => { toggle.textContent = isDark() ? "Light" : "Dark"; };
const chosen = remembered();
if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
toggle.hidden = false;
name();
system.addEventListener("change", name);
toggle.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("dlperf-theme", root.dataset.theme); } catch { /* a file may have no storage */ }
  name();
});

// -- parts of which one is chosen; without a script all of them are there, folded

for (const box of document.querySelectorAll(".choice")) {
  const parts = [...box.querySelectorAll(":scope > details")];
  const select = make("select", {}, ...parts.map((part, at) =>
    make("option", { value: String(at), textContent: part.querySelector("summary").textContent })));
  // On a narrow screen plots are long: they are shown on request.
  if (narrow) select.prepend(make("option", { value: "", textContent: "choose", selected: true }));
  const choose = () => parts.forEach((part, at) => { part.hidden = String(at) !== select.value; part.open = !part.hidden; });
  select.addEventListener("change", choose);
  box.classList.add("chosen");
  box.prepend(make("label", {}, `Show ${box.dataset.label}`, select));
  choose();
}

// -- plots

// A row's label that is too long is broken into lines, so that none is cut.
const wrapLabels = (spec, letters) => {
  const rows = spec.data.values.filter((row) => "label" in row);
  if (!rows.length) return;
  let most = 1;
  const wrap = (label) => {
    const lines = [""];
    for (const word of label.split(" ")) {
      const last = lines.length - 1;
      if (lines[last] && lines[last].length + word.length > letters) lines.push(word);
      else lines[last] = lines[last] ? `${lines[last]} ${word}` : word;
    }
    most = Math.max(most, lines.length);
    return lines.join("\n");
  };
  for (const row of rows) row.label = wrap(row.label);
  for (const layer of spec.layer) {
    const y = layer.encoding && layer.encoding.y;
    if (!y || y.field !== "label") continue;
    if (Array.isArray(y.sort)) y.sort = y.sort.map(wrap);
    // Vega puts the first line beside the mark: the lines are centered there.
    const condition = Array.from({ length: most }, (_, at) => ({ test: `length(split(datum.label, "\\n")) === ${at + 1}`, value: -7 * at }));
    y.axis = { ...y.axis, labelOffset: { condition, value: 0 } };
  }
  spec.config.lineBreak = "\n";
  const labels = new Set(rows.map((row) => row.label)).size;
  if (most > 1) spec.height = Math.max(spec.height, labels * (most * 15 + 10));
};

const draw = async (figure) => {
  const drawing = figure.querySelector(".drawing");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const width = drawing.clientWidth;
  const limit = Math.max(100, Math.round(width * (width < 560 ? 0.54 : 0.36)));
  spec.config.axisY = { ...spec.config.axisY, labelLimit: limit };
  // A letter takes seven pixels.
  wrapLabels(spec, Math.floor(limit / 7));
  // `ast`: expressions are interpreted, not compiled, so that the policy need not allow eval.
  await vegaEmbed(drawing, spec, {
    ast: true, actions: false, renderer: "svg", defaultStyle: false,
    tooltip: { disableDefaultStyle: true, theme: "report" },
  });
  // The plot is one image with a name and a description; its parts say nothing by themselves.
  drawing.querySelector("svg").setAttribute("aria-hidden", "true");
  figure.dataset.drawn = "yes";
};
const report = (error, figure) => {
  figure.querySelector(".drawing").textContent = "This plot could not be drawn; its numbers stand in the table.";
  figure.dataset.drawn = "no";
  console.error(error);
};
const started = new Set();
const drawOnce = (figure) => {
  if (started.has(figure)) return Promise.resolve();
  started.add(figure);
  return draw(figure).catch((error) => report(error, figure));
};
const visible = (figure) => !figure.closest("details:not([open])");
const drawVisible = async () => {
  for (const figure of document.querySelectorAll(".plot")) {
    if (visible(figure)) {
      await drawOnce(figure);
      // Let the page answer between two plots.
      await new Promise((done) => setTimeout(done));
    }
  }
};
for (const folded of document.querySelectorAll("details")) folded.addEventListener("toggle", drawVisible);
// The contents mark the section that is read.
const links = new Map([...document.querySelectorAll('nav a[href^="#"]')].map((link) => [link.hash.slice(1), link]));
const watch = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) links.get(target.id).setAttribute("aria-current", "true");
    else links.get(target.id).removeAttribute("aria-current");
  }
}, { rootMargin: "-20% 0px -75% 0px" });
for (const id of links.keys()) watch.observe(document.getElementById(id));
// A link to a folded section opens it.
const unfold = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const part = target && target.querySelector(":scope > details.part");
  if (part && !part.open) {
    part.open = true;
    // Before its plots are drawn the page may be too short to bring its heading to the top.
    drawVisible().then(() => target.scrollIntoView());
  }
};
window.addEventListener("hashchange", unfold);
unfold();
const opened = new Set();
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details.numbers:not([open]), details.part:not([open])")) { opened.add(details); details.open = true; }
});
window.addEventListener("afterprint", () => { opened.forEach((details) => { details.open = false; }); opened.clear(); });
if (window.vegaEmbed) drawVisible().then(() => { root.dataset.plots = "drawn"; });
else root.dataset.plots = "none";
