// -- tables that are sorted, searched, filtered and shown in pages

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const units = { n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };
const binary = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
// `1,945.2 MiB` as bytes; null for what is no number.
const numeric = (shown) => {
  const text = shown.replace("−", "-");
  const found = /^[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?/i.exec(text);
  if (!found) return null;
  const unit = text.slice(found[0].length).trim();
  const prefix = binary[unit.slice(0, 2)] ?? (unit.length > 1 && /^(.)(s|B|J|W|FLOP)/.test(unit) ? units[unit[0]] : 1) ?? 1;
  return Number(found[0].replaceAll(",", "")) * prefix;
};

const sortable = (box) => {
  const { cells, right, rows } = JSON.parse(box.querySelector("script").textContent);
  const step = narrow ? Math.min(Number(box.dataset.step), 6) : Number(box.dataset.step);
  const table = box.querySelector("table");
  const heads = [...table.querySelectorAll("thead th, thead td")];
  const stacked = table.classList.contains("stacked");
  const labels = heads.map((head) => head.textContent.trim());
  const title = (table.caption && table.caption.textContent) || "the table";
  const kinds = [...table.querySelectorAll("tbody tr:first-child td")].map((td) =>
    ["right", "whole", "key"].filter((kind) => td.classList.contains(kind)).join(" "));
  const text = (row, at) => cells[at][row[at]][0];
  const state = { column: null, down: false, words: "", wanted: new Map(), from: 0, found: rows, all: false };

  // A column's different cells are few: each is put in order once.
  const ranks = new Map();
  const rankOf = (at) => {
    if (!ranks.has(at)) {
      const keys = cells[at].map(([said]) => (right[at] ? numeric(said) : said.trim() || null));
      const order = keys.map((_, index) => index).sort((a, b) => {
        const [x, y] = [keys[a], keys[b]];
        if (x === null || y === null) return (x === null) - (y === null);
        return right[at] ? x - y : collator.compare(x, y);
      });
      const rank = [];
      let last = 0;
      order.forEach((index, place) => {
        const before = order[place - 1];
        const same = place && (right[at] ? keys[before] === keys[index] : collator.compare(keys[before] ?? "", keys[index] ?? "") === 0);
        last = same ? last : place;
        rank[index] = keys[index] === null ? Infinity : last;
      });
      ranks.set(at, rank);
    }
    return ranks.get(at);
  };

  const { rowsWith, unknown, preview, namings } = searcher(cells.map((column) => column.map(([said]) => said)), rows, labels, placeOf(box), title);

  const find = () => {
    let found = rowsWith(state.words).filter((row) => [...state.wanted].every(([at, value]) => text(row, at) === value));
    if (state.column !== null) {
      const [at, rank, sign] = [state.column, rankOf(state.column), state.down ? -1 : 1];
      const compare = (a, b) => {
        const [x, y] = [rank[a[at]], rank[b[at]]];
        // What has no value stands last in both directions.
        if (x === Infinity || y === Infinity) return (x === Infinity) - (y === Infinity);
        return sign * (x - y);
      };
      found = found.slice().sort(compare);
    }
    Object.assign(state, { found, from: 0 });
    show();
  };

  // An invisible row with the longest cell of each column keeps the widths the same on all pages.
  table.createTFoot().append(make("tr", {}, ...cells.map((column, at) => {
    const [said, tone] = column.reduce((longest, cell) => (cell[0].length > longest[0].length ? cell : longest), ["", ""]);
    return make("td", { className: `${tone} ${kinds[at]}`, textContent: said });
  })));

  const status = make("p", { role: "status" });
  const back = make("button", { type: "button", textContent: "Previous" });
  const on = make("button", { type: "button", textContent: "Next" });
  const show = () => {
    // Hardly more rows than a page has are shown whole.
    const size = state.all || state.found.length <= 1.25 * step ? state.found.length : step;
    const to = Math.min(state.from + size, state.found.length);
    const shown = state.found.slice(state.from, to).map((row) => make("tr", {}, ...row.map((cell, at) => {
      const [said, tone, link] = cells[at][cell];
      const parts = tone.endsWith("long") ? said.split(/(?<=[/_])/) : [said];
      // A path is broken behind slashes and underscores.
      const content = link ? [make("a", { href: link, textContent: said })] : parts.flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
      const cellElement = make("td", { className: `${tone} ${kinds[at]}` }, ...content);
      if (stacked) cellElement.dataset.label = labels[at];
      return cellElement;
    })));
    table.tBodies[0].replaceChildren(...shown);
    const many = (count) => count.toLocaleString("en");
    const of = state.found.length === rows.length ? many(rows.length) : `${many(state.found.length)} found of ${many(rows.length)}`;
    if (title.startsWith(`${many(rows.length)} `))
      table.caption.textContent = state.found.length === rows.length ? title : `${many(state.found.length)} of ${title}`;
    status.textContent = state.found.length ? `Rows ${many(state.from + 1)} to ${many(to)} of ${of}` : "No row matches the search and the filters.";
    const missing = state.found.length ? [] : unknown(state.words);
    if (missing.length) status.append(` The table does not have ${missing.map((word) => `“${word}”`).join(", ")}.`);
    if (!state.found.length) status.append(...othersWith([state.words, ...[...state.wanted.values()].map((value) => `"${value}"`)].join(" ")));
    back.disabled = state.from === 0;
    on.disabled = to >= state.found.length;
    back.hidden = on.hidden = state.found.length <= size;
  };
  // Buttons that show what a search without result finds in the other tables of the section, which may be folded.
  const othersWith = (searched) => tables
    .filter((other) => other.box !== box && other.box.closest("section") === box.closest("section"))
    .map((other) => [other, other.find(searched).length]).filter(([, count]) => count)
    .map(([other, count]) => {
      const button = make("button", { type: "button", textContent: `Show ${count.toLocaleString("en")} in “${other.title}”` });
      button.addEventListener("click", () => other.reveal(searched));
      return button;
    });
  const turn = (by) => {
    state.from += by;
    show();
    // The head of the table stays in view.
    if (table.getBoundingClientRect().top < 0) box.scrollIntoView();
  };
  back.addEventListener("click", () => turn(-step));
  on.addEventListener("click", () => turn(step));

  heads.forEach((head, at) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.disabled = false;
    button.addEventListener("click", () => {
      // Numbers are first wanted from the largest on, words from A.
      state.down = state.column === at ? !state.down : right[at];
      state.column = at;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      find();
    });
  });

  const search = make("input", { type: "search", autocomplete: "off", ariaLabel: `Search in ${title}` });
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.words = search.value; find(); }, 120);
  });
  const folded = box.closest("details");
  tables.push({
    box,
    title: folded && !table.caption ? folded.querySelector("summary").textContent.trim() : title,
    isLast: false,
    find: rowsWith,
    unknown,
    namings,
    preview: (found, searched) => preview(found, searched, kinds.map((kind) => kind.includes("key"))),
    reveal: (searched) => {
      unfoldAround(box);
      search.value = state.words = searched.trim();
      find();
      box.scrollIntoView();
      search.focus({ preventScroll: true });
    },
  });
  const tools = make("div", { className: "tools" }, make("label", {}, "Search this table", search));
  for (const at of JSON.parse(box.dataset.filters)) {
    const values = [...new Set(cells[at].map(([said]) => said))].filter(Boolean).sort(collator.compare);
    if (values.length < 2 || values.length > 60) continue;
    const label = heads[at].textContent.trim() || "kind";
    const select = make("select", { ariaLabel: `${label} in ${title}` }, make("option", { value: "", textContent: "all" }),
      ...values.map((value) => make("option", { value, textContent: value.length > 60 ? `${value.slice(0, 60)}…` : value })));
    select.addEventListener("change", () => {
      if (select.value) state.wanted.set(at, select.value); else state.wanted.delete(at);
      find();
      // The plots of what was filtered are shown, where the section has them.
      for (const choice of box.closest("section").querySelectorAll(".choice > label > select")) {
        const option = select.value && [...choice.options].find((each) => each.textContent.split(", ").includes(select.value) || each.textContent.startsWith(select.value));
        if (option) { choice.value = option.value; choice.dispatchEvent(new Event("change")); }
      }
    });
    tools.append(make("label", {}, label, select));
  }
  // On a narrow screen the filters and the links that sort are shown on request.
  const more = make("button", { type: "button", className: "more", textContent: "Filter and sort" });
  more.setAttribute("aria-expanded", "false");
  more.addEventListener("click", () => more.setAttribute("aria-expanded", String(box.classList.toggle("expanded"))));
  tools.append(more);
  if (rows.length > 5) box.prepend(tools);
  if (rows.length > 5) box.append(make("div", { className: "pages" }, status, back, on));
  show();

  // On paper there are no pages to turn, but a thousand sheets are nobody's wish.
  window.addEventListener("beforeprint", () => { if (rows.length <= 1000) { Object.assign(state, { all: true, from: 0 }); show(); } });
  window.addEventListener("afterprint", () => { state.all = false; show(); });
};
// A table that cannot be sorted is searched as it stands; one of the numbers of a plot only repeats other tables.
const plain = (box) => {
  const table = box.querySelector("table");
  const lines = [...table.tBodies[0].rows];
  const cells = [...table.tHead.rows[0].cells].map((_, at) => lines.map((line) => line.cells[at].textContent.trim()));
  const rows = lines.map((_, place) => cells.map(() => place));
  const title = table.caption ? table.caption.textContent : "";
  const labels = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
  const { rowsWith, unknown, preview, namings } = searcher(cells, rows, labels, placeOf(box), title);
  tables.push({
    box,
    title: title || labels[0],
    isLast: Boolean(box.closest("details")),
    find: rowsWith,
    unknown,
    namings,
    preview: (found, searched) => preview(found, searched, labels.map((_, at) => lines[0].cells[at].classList.contains("key"))),
    reveal: (searched) => {
      unfoldAround(box);
      table.classList.remove("short");
      const found = new Set(rowsWith(searched).map((row) => row[0]));
      lines.forEach((line, place) => line.classList.toggle("hit", found.has(place)));
      (lines.find((line) => line.classList.contains("hit")) ?? box).scrollIntoView({ block: "center" });
    },
  });
};
for (const box of document.querySelectorAll(".wide")) {
  const around = box.closest(".sortable");
  if (around) sortable(around);
  else if (!box.closest(".plot, .choice") && box.querySelector("tbody tr")) plain(box);
}

// On a narrow screen a long table and long notes begin with their first rows.
for (const long of document.querySelectorAll("section .wide > .stacked, ol.notes")) {
  const rows = long.tBodies ? long.tBodies[0].rows.length : long.children.length;
  if (long.closest(".sortable") || rows <= (long.tBodies ? 8 : 4)) continue;
  long.classList.add("short");
  const all = make("button", { type: "button", className: "more-rows", textContent: `Show all ${rows}` });
  all.addEventListener("click", () => { long.classList.remove("short"); });
  (long.tBodies ? long.parentElement : long).after(all);
}

// -- the search over all tables of the page

const finder = document.getElementById("find");
const found = document.getElementById("found");
// The tables that a search names come first, then those with the fewest rows of it; tables of a closed source come last.
const hitsOf = (searched) => tables.map((table) => ({ table, rows: table.find(searched), namings: table.namings(searched) }))
  .filter(({ rows }) => rows.length)
  .sort((a, b) => a.table.isLast - b.table.isLast || b.namings - a.namings || a.rows.length - b.rows.length);
const without = (words, dropped) => words.filter((word) => !dropped.includes(word)).join(" ");
const quote = (words) => words.map((word) => `“${word}”`).join(", ");
// A button in the list of what was found: a title, what was found there, and a line of it.
const entry = (title, count, line, show) => {
  const button = make("button", { type: "button" }, make("b", { textContent: title }), count, make("span", { textContent: line }));
  button.addEventListener("click", () => { found.hidden = true; show(); });
  return button;
};
// The tiles and sections that say one of the words, each with the sentence.
const placesWith = (words) => [...document.querySelectorAll(".tile, main section")].flatMap((place) => {
  const said = [...place.querySelectorAll("dt, dd, h2, .answer, p:not(.pages *)")].flatMap((each) => each.textContent.trim().split(/(?<=\.)\s/));
  const line = said.find((sentence) => words.some((word) => sentence.toLowerCase().includes(word.toLowerCase())));
  const link = links.get(place.id) ?? place.querySelector("dt a");
  return line && link ? [entry(place.querySelector("dt, h2").textContent.trim(), "", cut(line, lineLength), () => link.click())] : [];
});
const findAll = () => {
  const searched = finder.value.trim();
  const words = searched.match(/["“”][^"“”]*["“”]?|\S+/g) ?? [];
  let hits = searched ? hitsOf(searched) : [];
  let sought = searched;
  const notes = [];
  if (searched && !hits.length) {
    const missing = words.filter((word) => tables.every((each) => each.unknown(word).length));
    const dropped = missing.length ? missing : words.filter((word) => hitsOf(without(words, [word])).length).slice(0, 1);
    sought = without(words, dropped);
    hits = sought ? hitsOf(sought) : [];
    const count = hits.reduce((sum, { rows }) => sum + rows.length, 0);
    const rest = hits.length ? `; without ${missing.length ? dropped.length > 1 ? "them" : "it" : quote(dropped)}: ${count.toLocaleString("en")} row${count > 1 ? "s" : ""}` : "";
    notes.push(make("p", { textContent: `No row has ${missing.length ? quote(missing) : "all of these words"}${rest}.` }), ...placesWith(missing));
  }
  found.replaceChildren(...notes, ...hits.map(({ table, rows }) =>
    entry(placeOf(table.box), `, ${rows.length.toLocaleString("en")} in “${cut(table.title, narrow ? 30 : 60)}”`, table.preview(rows, sought), () => table.reveal(sought))));
  found.hidden = !searched;
};
let pausing = 0;
finder.hidden = !tables.length;
finder.addEventListener("input", () => { clearTimeout(pausing); pausing = setTimeout(findAll, 150); });
finder.addEventListener("focus", findAll);
finder.addEventListener("keydown", (event) => {
  if (event.key === "Escape") found.hidden = true;
  if (event.key === "Enter" && found.querySelector("button")) found.querySelector("button").click();
});
document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".bar")) found.hidden = true; });
