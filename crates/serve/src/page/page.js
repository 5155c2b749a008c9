// Shows what `events` says. Plain scripts: no library, nothing from elsewhere, and no HTML made of texts.
//
// 1. `connect` reads the events and connects again when they end; a key is asked for when one is needed.
// 2. `show` keeps the figures of the last two minutes and draws at most once per frame.
// 3. `server` and `job` turn figures into tiles, charts and tables; the rest only draws these.
"use strict";

const KEPT_MS = 120000;
const WAIT_MS = [500, 1000, 2000, 5000];
// Events further apart than this are not joined by a line: what was between them, nobody knows.
const GAP_MS = 2000;
// After so long without an event the connection is dead: 20 times what is between two events. Before
// the first one a job may start its Java.
const SILENT_MS = { server: 5000, job: 10000, unknown: 30000 };

const id = (name) => document.getElementById(name);
// `loop` counts calls of `connect`, and `asked` those of `ask`: only the newest of each goes on.
const state = { key: "", past: [], chosen: "", isDrawing: false, ended: false, loop: 0, line: null, asked: 0 };

// Numbers

const isKnown = (value) => typeof value === "number" && Number.isFinite(value);
const orNone = (show) => (value) => (isKnown(value) ? show(value) : "–");
const count = orNone((value) => Math.round(value).toLocaleString("en"));
const rate = orNone((value) => (value >= 10 || value === 0 ? count(value) : value.toFixed(1)));
const millis = orNone((value) => {
  if (value === 0) return "0 ms";
  if (value >= 1000) return `${(value / 1000).toFixed(value < 10000 ? 2 : 1)} s`;
  return `${value.toFixed(value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0)} ms`;
});
const share = orNone((value) => value.toFixed(4));
const bytes = orNone((value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = units.findLastIndex((_, i) => i === 0 || value >= 1024 ** i);
  const part = value / 1024 ** at;
  return `${part.toFixed(at === 0 || part >= 100 ? 0 : 1)} ${units[at]}`;
});
const time = orNone((seconds) => {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
});
// What no row says is unknown, not 0; of no rows at all the sum is 0.
const sum = (rows, of) => {
  const known = rows.map(of).filter(isKnown);
  return rows.length && !known.length ? null : known.reduce((all, value) => all + value, 0);
};
const most = (rows, of) => {
  const known = rows.map(of).filter(isKnown);
  return known.length ? Math.max(...known) : null;
};

// Elements

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const element = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
const drawn = (name, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// Changes nothing that is as it should be: a screen reader hears of what is new alone.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Tiles

// A tile is its name, its value, a note, and whether a target is missed.
function showTiles(tiles) {
  const list = id("tiles");
  while (list.children.length > tiles.length) list.lastChild.remove();
  tiles.forEach(([name, value, note = "", missed = false], at) => {
    const parts = () => [element("dt"), element("dd", { class: "value" }), element("dd", { class: "note" })];
    if (!list.children[at]) list.append(element("div", {}, ...parts()));
    const [label, number, remark] = list.children[at].children;
    list.children[at].dataset.name = name;
    setText(label, name);
    setText(number, value);
    setText(remark, note);
    number.classList.toggle("missed", missed);
  });
}

// Charts

const HEIGHT = 136;
const LEFT = 52;
const TOP = 8;
const BOTTOM = 18;

// The next of 1, 2, 5, 10, …
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.9999);
}

// Figures came at `times`, each with a value of each line.
function showChart(at, { title, show, series, range }, times) {
  const cards = id("charts");
  if (!cards.children[at]) {
    const svg = drawn("svg", { role: "img" });
    cards.append(element("figure", { class: "card" }, element("figcaption"), svg));
  }
  const [caption, svg] = cards.children[at].children;
  const last = (line) => show(line.values.at(-1));
  const legends = series.map((line) => element("span", { class: `legend ${line.kind}` }, `${line.name} ${last(line)}`));
  caption.replaceChildren(element("span", {}, title), ...legends);
  svg.setAttribute("aria-label", `${title}: ${series.map((line) => `${line.name} ${last(line)}`).join(", ")}`);

  const width = svg.clientWidth || 340;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const known = series.flatMap((line) => line.values).filter(isKnown);
  const low = range ? Math.min(range[0], ...known) : 0;
  const high = range ? Math.max(range[1], ...known) : round(Math.max(...known, 1e-3));
  const x = (i) => LEFT + (1 - (times.at(-1) - times[i]) / KEPT_MS) * (width - LEFT - 2);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const parts = [];
  for (const part of [0, 0.5, 1]) {
    const value = low + (high - low) * part;
    parts.push(drawn("line", { class: "rule", x1: LEFT, x2: width, y1: y(value), y2: y(value) }));
    parts.push(drawn("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, show(value)));
  }
  for (const [part, text, anchor] of [[0, "2 min ago", "start"], [1, "now", "end"]]) {
    parts.push(drawn("text", { x: LEFT + part * (width - LEFT), y: HEIGHT - 3, "text-anchor": anchor }, text));
  }
  for (const { kind, values } of series) {
    let path = "";
    values.forEach((value, i) => {
      if (!isKnown(value)) return;
      const isNext = path && isKnown(values[i - 1]) && times[i] - times[i - 1] <= GAP_MS;
      path += `${isNext ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
      // One that stands alone is a dot.
      if (!isNext) path += "h0";
    });
    parts.push(drawn("path", { class: kind, d: path }));
  }
  svg.replaceChildren(...parts);
}

function showCharts(charts) {
  const times = state.past.map((figures) => figures.at);
  charts.forEach((chart, at) => showChart(at, chart, times));
  while (id("charts").children.length > charts.length) id("charts").lastChild.remove();
}

// Tables

// Cells stay the same elements as long as they are there, so the focus stays where it is.
function showTable(table, caption, heads, rows) {
  if (!table.tHead) {
    table.classList.add("stacks");
    const row = element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)));
    table.append(element("caption", { class: "unseen" }, caption), element("thead", {}, row), element("tbody"));
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.lastChild.remove();
  rows.forEach((cells, at) => {
    if (!body.rows[at]) {
      const made = heads.slice(1).map((head) => element("td", { "data-label": head }));
      body.append(element("tr", {}, element("th", { scope: "row" }), ...made));
    }
    cells.forEach((cell, i) => {
      const place = body.rows[at].children[i];
      if (typeof cell === "function") cell(place);
      else setText(place, cell);
    });
  });
}

// A server

const ofEngine = (row, name) => row.engine?.[name];
const recallOf = (row) => row.engine?.recall?.estimate;
const targetOf = (row) => String(Number(row.recall_target.toFixed(4)));
const isBelow = (row) => recallOf(row) + row.engine?.recall?.margin < row.recall_target;

// A chosen collection that is not in these figures is a row without any: unknown, and not all the others.
function chosenOf(figures) {
  if (!state.chosen) return figures.collections;
  return [figures.collections.find((row) => row.name === state.chosen) || { name: state.chosen }];
}

// The collection whose recall is furthest below its target.
function worst(rows) {
  const gap = (row) => recallOf(row) - row.recall_target;
  return rows.reduce((worst, row) => (!isKnown(gap(row)) || (worst && gap(worst) <= gap(row)) ? worst : row), null);
}

function serverTiles(figures) {
  const rows = chosenOf(figures);
  const low = worst(rows);
  const ofLow = low && rows.length > 1 ? ` · ${low.name}` : "";
  const total = (name) => sum(rows, (row) => ofEngine(row, name));
  const slowest = (ofOne) => (rows.length > 1 ? "in the slowest collection" : ofOne);
  const margin = low && `± ${low.engine.recall.margin.toFixed(4)}, target ${targetOf(low)}${ofLow}`;
  const soFar = `${count(sum(rows, (row) => row.searches))} so far`;
  const onDisk = `${bytes(total("segment_bytes"))} on disk, ${count(total("merges"))} merges`;
  const tiles = [
    ["Searches per second", rate(sum(rows, (row) => row.searches_per_second)), soFar],
    ["Writes per second", rate(sum(rows, (row) => row.writes_per_second)), `${count(total("writes"))} ever`],
    ["Search, median", millis(most(rows, (row) => row.p50)), slowest("of the last 5 s")],
    ["Search, 99 %", millis(most(rows, (row) => row.p99)), slowest("of the last 5 s")],
    ["Recall", low ? share(recallOf(low)) : "–", margin || "no audit yet", low !== null && isBelow(low)],
    ["Rows", count(total("rows")), `${count(total("leaves"))} leaves, ${count(total("splits"))} splits`],
    ["Segments", count(total("segments")), onDisk],
    ["Memory", bytes(total("memory_bytes")), `log ${bytes(total("log_bytes"))}`],
    ["A write is seen after", millis(most(rows, (row) => row.fresh)), slowest("now")],
  ];
  if (figures.requests) {
    const { failed_per_second: failed, refused_per_second: refused, per_second: all } = figures.requests;
    tiles.push(["Failures per second", rate(failed), `${rate(refused)} refused, of ${rate(all)} requests`, failed > 0]);
  }
  return tiles;
}

// A chart of two lines, each with its name and what it shows of figures.
function chart(title, show, [name, of], [otherName, ofOther, otherKind = "second"], range) {
  const line = (kind, name, of) => ({ kind, name, values: state.past.map(of) });
  return { title, show, range, series: [line("first", name, of), line(otherKind, otherName, ofOther)] };
}

const signed = orNone((value) => `${value > 0 ? "+" : ""}${value.toFixed(3)}`);
const shortShare = orNone((value) => value.toFixed(3));

function serverCharts() {
  const all = (fold, of) => (figures) => fold(chosenOf(figures), of);
  const low = (figures) => worst(chosenOf(figures)) || {};
  const inMemory = all(sum, (row) => ofEngine(row, "memory_rows"));
  const inSegments = all(sum, (row) => ofEngine(row, "segment_rows"));
  const [searches, writes] = ["searches", "writes"].map((name) => all(sum, (row) => row[`${name}_per_second`]));
  const [median, late] = [all(most, (row) => row.p50), all(most, (row) => row.p99)];
  const estimate = (figures) => recallOf(low(figures));
  const target = (figures) => low(figures).recall_target;
  // Collections may have targets of their own, so of several only the distance can be one line.
  const above = (figures) => (isKnown(estimate(figures)) ? estimate(figures) - target(figures) : null);
  const isOne = chosenOf(state.past.at(-1)).length === 1;
  const recall = isOne
    ? chart("Recall", shortShare, ["estimate", estimate], ["target", target, "goal"], [0.9, 1])
    : chart("Recall above the target", signed, ["the least", above], ["target", () => 0, "goal"], [-0.05, 0.05]);
  return [
    chart("Per second", rate, ["searches", searches], ["writes", writes]),
    chart("Time of a search", millis, ["median", median], ["99 %", late]),
    recall,
    chart("Rows", count, ["in memory", inMemory], ["in segments", inSegments]),
  ];
}

function nameButton(name) {
  return (cell) => {
    if (!cell.firstChild) {
      cell.append(element("button", { type: "button" }));
      cell.firstChild.addEventListener("click", (event) => choose(event.currentTarget.textContent));
    }
    const button = cell.firstChild;
    setText(button, name);
    button.setAttribute("aria-pressed", String(state.chosen === name));
  };
}

function choose(name) {
  state.chosen = state.chosen === name ? "" : name;
  if (state.chosen) id("collection").value = state.chosen;
  draw();
}

function recallCell(row) {
  return (cell) => {
    setText(cell, `${share(recallOf(row))} of ${targetOf(row)}`);
    cell.classList.toggle("missed", isBelow(row));
  };
}

const COLLECTION_HEADS = [
  "Collection", "Rows", "Searches/s", "Median", "99 %", "Writes/s", "Recall", "Probes", "Leaves", "Splits",
  "Segments", "Memory", "Seen after",
];

function showCollections(figures) {
  const rows = figures.collections.map((row) => [
    nameButton(row.name),
    count(ofEngine(row, "rows")),
    rate(row.searches_per_second), millis(row.p50), millis(row.p99), rate(row.writes_per_second),
    recallCell(row),
    ...["probes", "leaves", "splits"].map((name) => count(ofEngine(row, name))),
    `${count(ofEngine(row, "segments"))}, ${bytes(ofEngine(row, "segment_bytes"))}`,
    bytes(ofEngine(row, "memory_bytes")),
    millis(row.fresh),
  ]);
  showTable(id("collection-table"), "Collections, the busiest first", COLLECTION_HEADS, rows);
  setText(id("more"), figures.more ? `${count(figures.more)} more are not shown.` : rows.length ? "" : "There is none yet.");
  const broken = figures.collections.filter((row) => ofEngine(row, "failure"));
  setText(id("broken"), broken.map((row) => `${row.name}: ${row.engine.failure}`).join("; "));
  offer(figures.collections.map((row) => row.name).sort());
}

// Lets these be asked. The chosen one stays though it is missing, so that no question goes elsewhere unseen.
function offer(names) {
  const list = id("collection");
  const before = list.value;
  const isMissing = before !== "" && !names.includes(before);
  const offered = names.map((name) => [name, name]);
  if (isMissing) offered.push([before, `${before} (missing)`]);
  const texts = offered.map(([, text]) => text).join("\n");
  if (texts !== Array.from(list.options, (option) => option.textContent).join("\n")) {
    list.replaceChildren(...offered.map(([value, text]) => element("option", { value }, text)));
    if (before) list.value = before;
  }
  id("ask").hidden = names.length === 0;
}

function server(figures) {
  const { hostname, port } = window.location;
  setText(id("about"), `${figures.version} at ${hostname}${port ? `:${port}` : ""}, up ${time(figures.uptime_seconds)}`);
  const isThere = figures.collections.some((row) => row.name === state.chosen);
  id("scope").hidden = !state.chosen;
  setText(id("scope").firstElementChild, `Figures of ${state.chosen}${isThere ? "" : ", which is missing"}.`);
  showTiles(serverTiles(figures));
  showCharts(serverCharts());
  showCollections(figures);
  const rows = figures.slow.map((one) => [
    one.collection, millis(one.took), `${time(one.seconds_ago)} ago`, count(one.limit),
    [one.exact && "exact", one.filtered && "with a filter"].filter(Boolean).join(", ") || "plain",
  ]);
  showTable(id("slow-table"), "The slowest searches of the last minutes", ["Collection", "Took", "When", "Points", "Kind"], rows);
  id("collections").hidden = false;
  id("slow").hidden = rows.length === 0;
}

// A job

function job(figures) {
  setText(id("about"), `${figures.title} · ${figures.phase || "starting"} · ${time(figures.seconds)}`);
  const recall = figures.recall_recent ?? figures.recall_at_10;
  const isMissed = isKnown(figures.recall_at_10) && figures.recall_at_10 < figures.recall_target;
  const lagNote = isKnown(figures.freshness_lag) ? "the slowest partition" : "no event times";
  showTiles([
    ["Vectors per second", rate(figures.vectors_per_second), `${count(figures.vectors)} so far`],
    ["Deletes per second", rate(figures.deletes_per_second), `${count(figures.deletes)} so far`],
    ["Answers per second", rate(figures.queries_per_second), `${count(figures.queries)} so far`],
    ["Answer, median", millis(figures.p50), "from the intended send"],
    ["Answer, 99 %", millis(figures.p99), "from the intended send"],
    ["Recall@10", share(figures.recall_at_10), `${count(figures.audits)} audits, target ${targetOf(figures)}`, isMissed],
    ["Backlog", count(figures.writes_waiting), `writes; ${count(figures.searches_in_flight)} searches under way`],
    ["Behind events by", millis(figures.freshness_lag), lagNote],
    ["Bad records", count(figures.bad_records), "", figures.bad_records > 0],
  ]);
  const recentRecall = [isKnown(recall) ? "of recent audits" : "no audit yet", (past) => past.recall_recent];
  showCharts([
    chart("Per second", rate, ["vectors", (past) => past.vectors_per_second], ["answers", (past) => past.queries_per_second]),
    chart("Time of an answer", millis, ["median", (past) => past.p50], ["99 %", (past) => past.p99]),
    chart("Recall@10", shortShare, recentRecall, ["target", (past) => past.recall_target, "goal"], [0.9, 1]),
    chart("Backlog", count, ["writes", (past) => past.writes_waiting], ["searches", (past) => past.searches_in_flight]),
  ]);
  id("done").hidden = !isKnown(figures.done);
  if (isKnown(figures.done)) id("done").firstElementChild.value = figures.done;
  showPartitions(figures);
  id("partitions").hidden = false;
  offer(figures.asks ? [figures.asks] : []);
}

// In the order of the steps of a hand-over; after the last nothing moves.
const STEPS = [
  "queries visit the old owners and the new ones", "writes go to the new owners",
  "the new owners take the rows in", "the old owners drop the rows",
];

function showPartitions(figures) {
  const largest = Math.max(1, ...figures.rows_per_partition);
  const worked = figures.work_us_per_partition;
  const all = sum(worked, (work) => work);
  const rows = figures.rows_per_partition.map((held, at) => [
    String(at),
    count(held),
    (cell) => {
      if (!cell.firstChild) cell.append(element("meter", { min: 0, max: 1, "aria-label": "Rows, beside the largest partition" }));
      cell.firstChild.value = held / largest;
    },
    all > 0 && isKnown(worked[at]) ? `${((100 * worked[at]) / all).toFixed(0)} %` : "–",
  ]);
  showTable(id("partition-table"), "Partitions", ["Partition", "Rows", "Beside the largest", "Share of the work"], rows);
  const step = STEPS[figures.hand_over_step];
  const moving = step ? `A hand-over is under way: ${step}.` : "No hand-over is under way.";
  const adopted = `${count(figures.rows_adopted)} rows changed their partition.`;
  setText(id("hand-over"), `${moving} Template ${count(figures.epoch)}; ${adopted}`);
}

// Asking

// Integers that a browser would round are kept as they were written.
const parse = (text) =>
  JSON.parse(text, (_, value, context) => {
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source);
    if (!isRounded) return value;
    return JSON.rawJSON ? JSON.rawJSON(context.source) : context.source;
  });

// What is JSON is sent as it was typed: it may have larger integers than a browser's numbers can be.
function checked(text) {
  JSON.parse(text);
  return text;
}

function target(text) {
  const given = text.trim();
  if (/^\d+$/.test(given)) return given;
  return given.startsWith("[") ? checked(given) : JSON.stringify(given.replace(/^"|"$/g, ""));
}

function question() {
  const filter = id("filter").value.trim();
  const parts = [`"query": ${target(id("near").value)}`, `"limit": ${Number(id("limit").value)}`, '"with_payload": true'];
  if (filter) parts.push(`"filter": ${checked(filter)}`);
  return `{${parts.join(", ")}}`;
}

// Asks the server. Returns the status and the text of its answer.
async function answered(body) {
  const path = `../collections/${encodeURIComponent(id("collection").value)}/points/query`;
  const sent = { ...headers(), "content-type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers: sent, body });
  return [answer.status, await answer.text()];
}

// Shows points, and returns what to say of them; throws when `text` is no answer of a server.
function showAnswer(text, took) {
  const { result, time: seconds } = parse(text);
  const rows = result.points.map((point) => [
    typeof point.id === "string" ? point.id : JSON.stringify(point.id),
    point.score.toFixed(4),
    (cell) => {
      cell.className = "payload text";
      setText(cell, point.payload && Object.keys(point.payload).length ? JSON.stringify(point.payload) : "–");
    },
  ]);
  showTable(id("answer"), "Answer", ["Id", "Score", "Payload"], rows);
  id("answer-place").hidden = rows.length === 0;
  return `${count(rows.length)} points. The server took ${millis(seconds * 1000)}, the whole ${millis(took)}.`;
}

async function ask(event) {
  event.preventDefault();
  const number = (state.asked += 1);
  const tell = (text, isError = true) => {
    id("answer-state").classList.toggle("error", isError);
    setText(id("answer-state"), text);
  };
  id("answer-place").hidden = true;
  tell("Searching", false);
  let body;
  try {
    body = question();
  } catch (error) {
    return tell(`This is no JSON: ${error.message}`);
  }
  const began = performance.now();
  const [status, text] = await answered(body).catch(() => [0, ""]);
  // Answers may come in another order than questions went.
  if (number !== state.asked) return;
  if (status === 0) return tell("The server did not answer.");
  try {
    if (status === 200) tell(showAnswer(text, performance.now() - began), false);
    else tell(parse(text).status.error.toString());
  } catch {
    // A proxy speaks like this, in HTML.
    tell(`Something else than the server answered, with the status ${status}.`);
  }
}

// Events

const headers = () => (state.key ? { "api-key": state.key } : {});

function say(text, kind = "") {
  setText(id("state"), text);
  id("state").className = kind;
}

function draw() {
  if (state.isDrawing || state.past.length === 0) return;
  state.isDrawing = true;
  // Without a frame, as in a tab that nobody sees, nothing is drawn.
  requestAnimationFrame(() => {
    state.isDrawing = false;
    const figures = state.past.at(-1);
    if (figures.kind === "job") job(figures);
    else server(figures);
    id("figures").hidden = false;
  });
}

// Forgets what was shown: a server took the place of a job at this address, or the other way round.
function forget() {
  Object.assign(state, { past: [], chosen: "" });
  id("collection").replaceChildren();
  for (const name of ["scope", "done", "collections", "partitions", "ask", "slow"]) id(name).hidden = true;
}

function show(figures) {
  if (state.past.length && state.past.at(-1).kind !== figures.kind) forget();
  // Known before anything is drawn: the events may end at once.
  state.ended = figures.phase === "ended";
  const at = performance.now();
  state.past.push({ ...figures, at });
  while (at - state.past[0].at > KEPT_MS) state.past.shift();
  draw();
}

// Reads events until they end, or until none comes for long. Returns how the server refused, if it did.
async function read() {
  const line = (state.line = new AbortController());
  let timer = 0;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => line.abort(), SILENT_MS[state.past.at(-1)?.kind] || SILENT_MS.unknown);
  };
  try {
    wait();
    const answer = await fetch("events", { headers: headers(), cache: "no-store", signal: line.signal });
    if (!answer.ok) return answer.status;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let waiting = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return null;
      const events = (waiting + value).split("\n\n");
      waiting = events.pop();
      for (const event of events.filter((one) => one.startsWith("data: "))) {
        show(JSON.parse(event.slice(6)));
        say("Live", "live");
      }
      wait();
    }
  } finally {
    clearTimeout(timer);
    line.abort();
  }
}

function askKey(isWrong) {
  state.key = "";
  say("Locked");
  id("key").hidden = false;
  setText(id("key-error"), isWrong ? "The server does not know this key." : "");
  id("key-text").focus();
}

// Connects again and again. A call ends those before it, so that there is one connection.
async function connect() {
  const loop = (state.loop += 1);
  state.line?.abort();
  for (let tries = 0; ; tries += 1) {
    const before = state.past.at(-1);
    // Without a status the server is gone, or was never there.
    const status = await read().catch(() => null);
    if (loop !== state.loop) return;
    if (status === 401) return askKey(state.key !== "");
    if (state.ended) return say("The job has ended");
    if (state.past.at(-1) !== before) tries = 0;
    say(status ? `Refused (${status}), trying again` : "Lost, trying again", "lost");
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS[Math.min(tries, WAIT_MS.length - 1)]));
    if (loop !== state.loop) return;
  }
}

function useKey(event) {
  event.preventDefault();
  state.key = id("key-text").value.trim();
  id("key-text").value = "";
  try {
    // Some characters cannot be sent at all.
    new Headers(headers());
  } catch {
    return askKey(true);
  }
  id("key").hidden = true;
  say("Connecting");
  connect();
}

// Theme

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
const nameTheme = () => setText(id("theme"), isDark() ? "Light" : "Dark");

id("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
dark.addEventListener("change", nameTheme);

id("all").addEventListener("click", () => choose(state.chosen));
id("question").addEventListener("submit", ask);
id("key").addEventListener("submit", useKey);
nameTheme();
connect();
