// Shows what `events` says. Plain scripts: no library, nothing from elsewhere, and no HTML made of texts.
//
// 1. `connect` reads the events and connects again when they end; a key is asked for when one is needed.
// 2. `show` keeps the figures of the last two minutes and draws at most once per frame.
// 3. `server` and `job` turn figures into tiles, charts and tables; the rest only draws these.
"use strict";

const KEPT_MS = 120000;
const WAIT_MS = [500, 1000, 2000, 5000];

const id = (name) => document.getElementById(name);
const state = { key: "", past: [], chosen: "", isDrawing: false, ended: false };

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
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value.toFixed(at === 0 || value >= 100 ? 0 : 1)} ${units[at]}`;
});
const time = orNone((seconds) => {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
});
const sum = (rows, of) => rows.reduce((all, row) => all + (of(row) || 0), 0);
const most = (rows, of) => {
  const known = rows.map(of).filter(isKnown);
  return known.length ? Math.max(...known) : null;
};

// Elements

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Changes nothing that is as it should be: a screen reader hears of what is new alone.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Tiles

function showTiles(tiles) {
  const list = id("tiles");
  while (list.children.length > tiles.length) list.lastChild.remove();
  tiles.forEach(({ name, value, note = "", missed = false }, at) => {
    if (!list.children[at]) {
      list.append(
        element("div", {}, element("dt"), element("dd", { class: "value" }), element("dd", { class: "note" })),
      );
    }
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
  const legends = series.map((line) =>
    element("span", { class: `legend ${line.kind}` }, `${line.name} ${last(line)}`),
  );
  caption.replaceChildren(element("span", {}, title), ...legends);
  svg.setAttribute("aria-label", `${title}: ${series.map((line) => `${line.name} ${last(line)}`).join(", ")}`);

  const width = svg.clientWidth || 340;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const known = series.flatMap((line) => line.values).filter(isKnown);
  const low = range ? Math.min(range[0], ...known) : 0;
  const high = range ? range[1] : round(Math.max(...known, 1e-3));
  const x = (i) => LEFT + (1 - (times.at(-1) - times[i]) / KEPT_MS) * (width - LEFT - 2);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const parts = [];
  for (const part of [0, 0.5, 1]) {
    const value = low + (high - low) * part;
    parts.push(drawn("line", { class: "rule", x1: LEFT, x2: width, y1: y(value), y2: y(value) }));
    const label = drawn("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" });
    label.textContent = show(value);
    parts.push(label);
  }
  for (const [part, text, anchor] of [[0, "2 min ago", "start"], [1, "now", "end"]]) {
    const label = drawn("text", { x: LEFT + part * (width - LEFT), y: HEIGHT - 3, "text-anchor": anchor });
    label.textContent = text;
    parts.push(label);
  }
  for (const { kind, values } of series) {
    let path = "";
    values.forEach((value, i) => {
      if (!isKnown(value)) return;
      const isNext = path && isKnown(values[i - 1]);
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
    const cells = heads.map((head) => element("th", { scope: "col" }, head));
    table.append(
      element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, ...cells)),
      element("tbody"),
    );
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.lastChild.remove();
  rows.forEach((cells, at) => {
    if (!body.rows[at]) {
      const made = heads.map((head, i) =>
        i === 0 ? element("th", { scope: "row" }) : element("td", { "data-label": head }),
      );
      body.append(element("tr", {}, ...made));
    }
    cells.forEach((cell, i) => {
      const place = body.rows[at].children[i];
      if (typeof cell === "function") cell(place);
      else setText(place, cell);
    });
  });
}

// A server

const ofEngine = (row, name) => (row.engine ? row.engine[name] : null);
const recallOf = (row) => (row.engine && row.engine.recall ? row.engine.recall.estimate : null);
const targetOf = (row) => String(Number(row.recall_target.toFixed(4)));
const isBelow = (row) => {
  const recall = row.engine && row.engine.recall;
  return Boolean(recall) && recall.estimate + recall.margin < row.recall_target;
};

function chosenOf(figures) {
  const one = figures.collections.find((row) => row.name === state.chosen);
  return one ? [one] : figures.collections;
}

// The collection whose recall is furthest below its target.
function worst(rows) {
  const known = rows.filter((row) => isKnown(recallOf(row)));
  const gap = (row) => recallOf(row) - row.recall_target;
  return known.reduce((worst, row) => (!worst || gap(row) < gap(worst) ? row : worst), null);
}

function serverTiles(figures) {
  const rows = chosenOf(figures);
  const searches = sum(rows, (row) => row.searches_per_second);
  const low = worst(rows);
  const ofLow = low && rows.length > 1 ? ` · ${low.name}` : "";
  const fresh = most(rows, (row) => row.fresh);
  const writes = sum(rows, (row) => row.writes_per_second);
  const total = (name) => sum(rows, (row) => ofEngine(row, name));
  const slowest = rows.length > 1 ? "in the slowest collection" : "of the last 5 s";
  const tiles = [
    { name: "Searches per second", value: rate(searches), note: `${count(sum(rows, (row) => row.searches))} so far` },
    { name: "Writes per second", value: rate(writes), note: `${count(total("writes"))} ever` },
    { name: "Search, median", value: millis(most(rows, (row) => row.p50)), note: slowest },
    { name: "Search, 99 %", value: millis(most(rows, (row) => row.p99)), note: slowest },
    {
      name: "Recall",
      value: low ? share(recallOf(low)) : "–",
      note: low ? `± ${low.engine.recall.margin.toFixed(4)}, target ${targetOf(low)}${ofLow}` : "no audit yet",
      missed: Boolean(low) && isBelow(low),
    },
    { name: "Rows", value: count(total("rows")), note: `${count(total("leaves"))} leaves, ${count(total("splits"))} splits` },
    {
      name: "Segments",
      value: count(total("segments")),
      note: `${bytes(total("segment_bytes"))} on disk, ${count(total("merges"))} merges`,
    },
    { name: "Memory", value: bytes(total("memory_bytes")), note: `log ${bytes(total("log_bytes"))}` },
    { name: "A write is seen after", value: millis(fresh), note: rows.length > 1 ? "in the slowest collection" : "now" },
  ];
  const requests = figures.requests;
  if (requests) {
    tiles.push({
      name: "Failures per second",
      value: rate(requests.failed_per_second),
      note: `${rate(requests.refused_per_second)} refused, of ${rate(requests.per_second)} requests`,
      missed: requests.failed_per_second > 0,
    });
  }
  return tiles;
}

// A chart of two lines, each with its name and what it shows of figures.
function chart(title, show, [name, of], [otherName, ofOther, otherKind = "second"], range) {
  const first = { kind: "first", name, values: state.past.map(of) };
  const second = { kind: otherKind, name: otherName, values: state.past.map(ofOther) };
  return { title, show, range, series: [first, second] };
}

const signed = orNone((value) => `${value > 0 ? "+" : ""}${value.toFixed(3)}`);
const shortShare = orNone((value) => value.toFixed(3));

function serverCharts() {
  const all = (fold, of) => (figures) => fold(chosenOf(figures), of);
  const low = (figures) => worst(chosenOf(figures)) || {};
  const inMemory = all(sum, (row) => ofEngine(row, "memory_rows"));
  const inSegments = all(sum, (row) => ofEngine(row, "segment_rows"));
  const searches = all(sum, (row) => row.searches_per_second);
  const writes = all(sum, (row) => row.writes_per_second);
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
    let button = cell.firstChild;
    if (!button) {
      button = element("button", { type: "button" });
      button.addEventListener("click", () => choose(button.textContent));
      cell.append(button);
    }
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
    rate(row.searches_per_second),
    millis(row.p50),
    millis(row.p99),
    rate(row.writes_per_second),
    recallCell(row),
    count(ofEngine(row, "probes")),
    count(ofEngine(row, "leaves")),
    count(ofEngine(row, "splits")),
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

// Lets these collections be asked.
function offer(names) {
  const list = id("collection");
  if (names.join("\n") !== Array.from(list.options, (option) => option.value).join("\n")) {
    const before = list.value;
    list.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    if (names.includes(before)) list.value = before;
  }
  id("ask").hidden = names.length === 0;
}

function server(figures) {
  const { hostname, port } = window.location;
  setText(id("about"), `${figures.version} at ${hostname}${port ? `:${port}` : ""}, up ${time(figures.uptime_seconds)}`);
  if (!figures.collections.some((row) => row.name === state.chosen)) state.chosen = "";
  id("scope").hidden = !state.chosen;
  setText(id("scope").firstElementChild, `Figures of ${state.chosen}.`);
  showTiles(serverTiles(figures));
  showCharts(serverCharts());
  showCollections(figures);
  const rows = figures.slow.map((one) => [
    one.collection,
    millis(one.took),
    `${time(one.seconds_ago)} ago`,
    count(one.limit),
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
  showTiles([
    { name: "Vectors per second", value: rate(figures.vectors_per_second), note: `${count(figures.vectors)} so far` },
    { name: "Deletes per second", value: rate(figures.deletes_per_second), note: `${count(figures.deletes)} so far` },
    { name: "Answers per second", value: rate(figures.queries_per_second), note: `${count(figures.queries)} so far` },
    { name: "Answer, median", value: millis(figures.p50), note: "from the intended send" },
    { name: "Answer, 99 %", value: millis(figures.p99), note: "from the intended send" },
    {
      name: "Recall@10",
      value: share(figures.recall_at_10),
      note: `${count(figures.audits)} audits, target ${targetOf(figures)}`,
      missed: isKnown(figures.recall_at_10) && figures.recall_at_10 < figures.recall_target,
    },
    { name: "Backlog", value: count(figures.writes_waiting), note: `writes; ${count(figures.searches_in_flight)} searches under way` },
    { name: "Behind events by", value: millis(figures.freshness_lag), note: isKnown(figures.freshness_lag) ? "the slowest partition" : "no event times" },
    { name: "Bad records", value: count(figures.bad_records), missed: figures.bad_records > 0 },
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
  setText(
    id("hand-over"),
    `${moving} Template ${count(figures.epoch)}; ${count(figures.rows_adopted)} rows changed their partition.`,
  );
}

// Asking

// Numbers that a browser would round are kept as the texts that they were.
const parse = (text) =>
  JSON.parse(text, (name, value, context) =>
    name === "id" && typeof value === "number" && !Number.isSafeInteger(value) && context ? context.source : value,
  );

function target(text) {
  const given = text.trim();
  // Ids are larger than a browser's numbers can be: they are sent as they were typed.
  if (/^\d+$/.test(given)) return given;
  if (given.startsWith("[")) return JSON.stringify(JSON.parse(given));
  return JSON.stringify(given.replace(/^"|"$/g, ""));
}

async function ask(event) {
  event.preventDefault();
  const say = (text, isError) => {
    id("answer-state").classList.toggle("error", Boolean(isError));
    setText(id("answer-state"), text);
  };
  id("answer-place").hidden = true;
  say("Searching");
  try {
    const filter = id("filter").value.trim();
    const parts = [`"query": ${target(id("near").value)}`, `"limit": ${Number(id("limit").value)}`, '"with_payload": true'];
    if (filter) parts.push(`"filter": ${JSON.stringify(JSON.parse(filter))}`);
    const began = performance.now();
    const answer = await fetch(`../collections/${encodeURIComponent(id("collection").value)}/points/query`, {
      method: "POST",
      headers: { ...headers(), "content-type": "application/json" },
      body: `{${parts.join(", ")}}`,
    });
    const took = performance.now() - began;
    const body = parse(await answer.text());
    if (!answer.ok) {
      say(body.status.error, true);
      return;
    }
    const points = body.result.points;
    say(`${count(points.length)} points. The server took ${millis(body.time * 1000)}, the whole ${millis(took)}.`);
    const rows = points.map((point) => [
      String(point.id),
      point.score.toFixed(4),
      (cell) => {
        cell.className = "payload text";
        setText(cell, point.payload && Object.keys(point.payload).length ? JSON.stringify(point.payload) : "–");
      },
    ]);
    showTable(id("answer"), "Answer", ["Id", "Score", "Payload"], rows);
    id("answer-place").hidden = rows.length === 0;
  } catch (error) {
    say(error instanceof SyntaxError ? `This is no JSON: ${error.message}` : "The server did not answer.", true);
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

function show(figures) {
  // Known before anything is drawn: the events may end at once.
  state.ended = figures.phase === "ended";
  const at = performance.now();
  state.past.push({ ...figures, at });
  while (at - state.past[0].at > KEPT_MS) state.past.shift();
  draw();
}

// Reads events until they end. Returns how the server refused, if it did.
async function read() {
  const answer = await fetch("events", { headers: headers(), cache: "no-store" });
  if (!answer.ok) return answer.status;
  id("key").hidden = true;
  say("Live", "live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return null;
    waiting += value;
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) show(JSON.parse(event.slice(6)));
    }
  }
}

async function connect() {
  for (let tries = 0; ; tries += 1) {
    const before = state.past.at(-1);
    let status = null;
    try {
      status = await read();
    } catch {
      // The server is gone, or was never there.
    }
    if (status === 401) {
      say("Locked");
      id("key").hidden = false;
      setText(id("key-error"), state.key ? "The server does not know this key." : "");
      state.key = "";
      id("key-text").focus();
      return;
    }
    if (state.ended) {
      say("The job has ended");
      return;
    }
    if (state.past.at(-1) !== before) tries = 0;
    say(status ? `Refused (${status}), trying again` : "Lost, trying again", "lost");
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS[Math.min(tries, WAIT_MS.length - 1)]));
  }
}

// Theme

const isDark = () =>
  (document.documentElement.dataset.theme ||
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function nameTheme() {
  setText(id("theme"), isDark() ? "Light" : "Dark");
}

id("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);

id("all").addEventListener("click", () => choose(state.chosen));
id("question").addEventListener("submit", ask);
id("key").addEventListener("submit", (event) => {
  event.preventDefault();
  state.key = id("key-text").value.trim();
  id("key-text").value = "";
  connect();
});
nameTheme();
connect();
