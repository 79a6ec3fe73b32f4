"use strict";
(() => {
  const root = document.documentElement;
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

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

  // Other words for what the tables say: `pytorch` finds `torch`.
  const aliases = new Map(Object.entries(JSON.parse(document.getElementById("aliases").textContent)));

  // Every table, with the number of its rows that a search finds, and a function that shows them.
  const tables = [];

  const sortable = (box) => {
    const { cells, right, rows } = JSON.parse(box.querySelector("script").textContent);
    const step = Number(box.dataset.step);
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

    // `32` is meant as a batch size, not as a part of `fp32`: a part of a token counts only if no token is or begins so.
    const ways = [(token, word) => token === word, (token, word) => token.startsWith(word), (token, word) => token.includes(word)];
    // `5716.79` finds `5,716.79`, and `steps,` finds `steps`.
    const tokensOf = (said) => said.toLowerCase().split(/[\s/]+/)
      .map((token) => token.replace(/^[([]+|[)\],;:]+$/g, "").replace(/(\d),(?=\d{3})/g, "$1"));
    let tokens = null;
    const holdersOf = (word) => {
      tokens ??= cells.map((column) => column.map(([said]) => tokensOf(said)));
      let holders = [];
      for (const way of ways) {
        holders = tokens.map((column) => column.map((cell) => cell.some((token) => way(token, word))));
        if (holders.some((column) => column.includes(true))) break;
      }
      return holders;
    };

    const holdersOfPhrase = (phrase) => cells.map((column) => column.map(([said]) => said.toLowerCase().includes(phrase)));

    // `batch 128` finds 128 in the column `batch`, and `torch vs paddle` finds both names.
    const silent = new Set(["vs", "versus", "against", "and", "with", ...labels.flatMap(tokensOf)]);
    const wordsOf = (searched) => tokensOf(searched.replace(/["“”][^"“”]*["“”]?/g, " "))
      .filter((word) => word && !silent.has(word)).map((word) => aliases.get(word) ?? word);

    const rowsWith = (searched) => {
      const phrases = [...searched.matchAll(/["“”]([^"“”]+)["“”]/g)].map((found) => found[1].trim().toLowerCase());
      // Which cells hold a word is asked once per different cell, not per row.
      const holding = [...wordsOf(searched).map(holdersOf), ...phrases.map(holdersOfPhrase)];
      return rows.filter((row) => holding.every((column) => row.some((cell, at) => column[at][cell])));
    };

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
      const to = state.all ? state.found.length : Math.min(state.from + step, state.found.length);
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
      const unknown = state.found.length ? [] : wordsOf(state.words).filter((word) => !holdersOf(word).some((column) => column.includes(true)));
      if (unknown.length) status.append(` The table does not have ${unknown.map((word) => `“${word}”`).join(", ")}.`);
      if (!state.found.length) status.append(...othersWith([state.words, ...[...state.wanted.values()].map((value) => `"${value}"`)].join(" ")));
      back.disabled = state.from === 0;
      on.disabled = to >= state.found.length;
      back.hidden = on.hidden = state.found.length <= step;
    };
    // Buttons that show what a search without result finds in the other tables of the section, which may be folded.
    const othersWith = (searched) => tables
      .filter((other) => other.box !== box && other.box.closest("section") === box.closest("section"))
      .map((other) => [other, other.count(searched)]).filter(([, count]) => count)
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
      count: (searched) => rowsWith(searched).length,
      reveal: (searched) => {
        for (let around = folded; around; around = around.parentElement.closest("details")) around.open = true;
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
  for (const box of document.querySelectorAll(".sortable")) sortable(box);

  // -- parts of which one is chosen; without a script all of them are there, folded

  for (const box of document.querySelectorAll(".choice")) {
    const parts = [...box.querySelectorAll(":scope > details")];
    const select = make("select", {}, ...parts.map((part, at) =>
      make("option", { value: String(at), textContent: part.querySelector("summary").textContent })));
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
    const narrow = width < 560;
    const limit = Math.max(100, Math.round(width * (narrow ? 0.54 : 0.36)));
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
})();
