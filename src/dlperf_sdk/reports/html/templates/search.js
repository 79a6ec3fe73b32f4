// The search over the tables of a page. The scripts of the page share one scope: this one, tables.js, behavior.js.
const root = document.documentElement;
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// Other words for what the tables say: `pytorch` finds `torch`.
const aliases = new Map(Object.entries({ best: "fastest", worst: "lowest", ...JSON.parse(document.getElementById("aliases").textContent) }));

// Every table, with a search over its rows, and a function that shows what was found.
const tables = [];
const narrow = window.matchMedia("(max-width: 40rem)").matches;

// `32` is meant as a batch size, not as a part of `fp32`: a part of a token counts only if no token is or begins so.
const ways = [(token, word) => token === word, (token, word) => token.startsWith(word), (token, word) => token.includes(word) && !token.startsWith("without-")];
// `5716.79` finds `5,716.79`, `steps,` finds `steps`, and `xla` does not find `without xla`.
const tokensOf = (said) => said.toLowerCase().replace(/\bwithout\s/g, "without-").split(/[\s/]+/)
  .map((token) => token.replace(/^[([]+|[)\],;:]+$/g, "").replace(/(\d),(?=\d{3})/g, "$1"));

// Words of a question that no table is searched for.
const stopWords = new Set("a against an and are at by did do does for from how in is much of on than that the to versus vs was what which with".split(" "));

// The search over a table: `cells` has the different texts of each column, `rows` the number of each cell in these.
const searcher = (cells, rows, labels, place, title) => {
  let tokens = null;
  const holdersOf = (word) => {
    tokens ??= cells.map((column) => column.map(tokensOf));
    let holders = [];
    for (const way of ways) {
      holders = tokens.map((column) => column.map((cell) => cell.some((token) => way(token, word))));
      if (holders.some((column) => column.includes(true))) break;
    }
    return holders;
  };
  const isHeld = (holders) => holders.some((column) => column.includes(true));
  const holdersOfPhrase = (phrase) => cells.map((column) => column.map((said) => said.toLowerCase().includes(phrase)));
  // `batch 128` finds 128 in the column `batch`, and `torch vs paddle` finds both names.
  const named = labels.map(tokensOf);
  const silent = new Set(named.flat());
  const bare = (searched) => tokensOf(searched.replace(/["“”][^"“”]*["“”]?/g, " ")).filter((word) => word && !stopWords.has(word));
  // What the title says is true of all rows: `bert` finds every row of the batch sizes of bert-base.
  const section = tokensOf(place);
  const context = [...section, ...tokensOf(title)];
  const isContext = (word) => context.some((token) => token.startsWith(word));
  const wordsOf = (searched) => bare(searched).filter((word) => !silent.has(word)).map((word) => aliases.get(word) ?? word);
  const rowsWith = (searched) => {
    const phrases = [...searched.matchAll(/["“”]([^"“”]+)["“”]/g)].map((found) => found[1].trim().toLowerCase());
    // Which cells hold a word is asked once per different cell, not per row.
    const words = wordsOf(searched).map((word) => [word, holdersOf(word)]);
    const holding = words.filter(([word, holders]) => isHeld(holders) || !isContext(word)).map(([, holders]) => holders);
    holding.push(...phrases.map(holdersOfPhrase));
    return rows.filter((row) => holding.every((column) => row.some((cell, at) => column[at][cell])));
  };
  const unknown = (searched) => wordsOf(searched).filter((word) => !isHeld(holdersOf(word)) && !isContext(word));
  // A row in one line: what names it, then the columns that the search names, then the others as far as there is room.
  const preview = (found, searched, isKey) => {
    const wanted = bare(searched);
    // `batch 64` names the column `batch 64` twice, and `batch 32` once.
    const namings = labels.map((_, at) => (isKey[at] ? 0 : named[at].filter((token) => wanted.includes(token)).length));
    const most = Math.max(1, ...namings);
    const said = (row, at) => cells[at][row[at]].replaceAll("\n", " ");
    const has = (row, at) => !["", "–"].includes(said(row, at));
    const row = found.find((each) => namings.some((count, at) => count === most && has(each, at))) ?? found[0];
    const parts = labels.map((label, at) => [at, isKey[at] || !label ? said(row, at) : `${label}: ${said(row, at)}`]).filter(([at]) => has(row, at));
    const isMeant = ([, text]) => tokensOf(text).some((token) => wanted.some((word) => token.startsWith(word)));
    const answers = parts.filter(([at]) => namings[at]).sort(([a], [b]) => namings[b] - namings[a]);
    // Of the others, a cell with a searched word comes first.
    const others = parts.filter(([at]) => !isKey[at] && !namings[at]).sort((a, b) => isMeant(b) - isMeant(a));
    const [heading, answer, rest] = [parts.filter(([at]) => isKey[at]), answers, others].map((some) => some.map(([, part]) => part).join(" · "));
    // Rather than an answer, long keys are cut off.
    const room = answer ? Math.max(lineLength / 2, lineLength - answer.length) : lineLength;
    return cut([cut(heading, room), answer, rest].filter(Boolean).join(" · "), lineLength + 4);
  };
  // How often a search names the section, which counts twice, or a column.
  const namings = (searched) => bare(searched).reduce((count, word) =>
    count + 2 * section.some((token) => token.startsWith(aliases.get(word) ?? word)) + named.some((label) => label.includes(word)), 0);
  return { rowsWith, unknown, preview, namings };
};
// The number of letters of a line of what was found.
const lineLength = narrow ? 110 : 160;
const cut = (text, letters) => (text.length > letters ? `${text.slice(0, letters)}…` : text);
const placeOf = (element) => {
  const section = element.closest("section");
  return section ? section.querySelector("h2").textContent.trim() : "";
};
const unfoldAround = (element) => {
  for (let around = element.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
};
