// The page: a form made of the simulator's table, its worker, and what came of it.

const $ = (id) => document.getElementById(id);
const make = (tag, within, attributes = {}, text = "") => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  within?.append(element);
  return element;
};

// What waits for a hole arrives at once when it is filled: rates are means over so many slices.
const MEAN_OF = 10;
const CHARTS = [
  { title: "Goodput, Mbit/s", of: (s) => s.goodput_bps / 1e6, mean: true },
  { title: "ACK packets per second", of: (s) => s.acks_per_s, mean: true },
  {
    title: "Packets waiting at access point, stations and wire",
    of: ({ waiting: [ap, stations, wire] }) => ap + stations + wire,
  },
  { title: "Smoothed round trip, ms", of: (s) => s.srtt_ms },
];

// Rows of the table: a name, a key of the result, and its factor.
const FIGURES = [
  ["Goodput, Mbit/s", "goodput_bps", 1e-6],
  ["ACK packets per second", "ack_packets_per_s", 1],
  ["Data packets per second", "data_packets_per_s", 1],
  ["Airtime of ACKs, %", "ack_airtime", 100],
  ["Channel accesses that collided, %", "collision_share", 100],
  ["Round trip, median, ms", "rtt_p50_us", 1e-3],
  ["Round trip, 95th percentile, ms", "rtt_p95_us", 1e-3],
  ["Segments sent again", "retransmissions", 1],
  ["Completion, s", "completion", 1],
  ["Request to response, median, ms", "latency_p50_us", 1e-3],
  ["Request to response, 95th percentile, ms", "latency_p95_us", 1e-3],
];

const state = {
  choices: [], file: "", link: "", result: "",
  // Of the newest question to the worker: its number, what the form had then, and whether its answer is to run.
  ask: 0, asked: {}, runs: false,
  // Of the run that is shown.
  run: 0, frame: 0, settling: false, opening: null, of: [], slices: [], at: 0, follows: true,
};

const source = new Blob([$("worker").textContent], { type: "text/javascript" });
const address = URL.createObjectURL(source);
let worker;

function hire() {
  worker = new Worker(address);
  worker.onmessage = told;
  worker.onerror = ({ message }) => {
    ended("The simulator could not be started: " + (message || "no reason given"));
  };
  worker.postMessage({ wasm: $("wasm").textContent.trim() });
}

// Another worker in place of one that does not listen.
function relieve() {
  if (!state.settling) return;
  state.settling = false;
  worker.terminate();
  hire();
}

// ---- the form

function field(choice, within) {
  const id = "set-" + choice.key;
  const part = make("div", within);
  make("label", part, { for: id }, choice.label);
  if (choice.words) {
    const select = make("select", part, { id, name: choice.key });
    for (const [word, shown] of choice.words) make("option", select, { value: word }, shown);
  } else {
    const [min, max, step] = choice.range;
    const number = { type: "number", inputmode: "decimal", min, max, step, required: "" };
    make("input", part, { id, name: choice.key, ...number });
  }
}

function makeForm(choices) {
  for (const choice of choices) {
    let group = $("group-" + choice.group);
    if (!group) {
      group = make("fieldset", $("fields"), { id: "group-" + choice.group });
      make("legend", group, {}, choice.group);
    }
    field(choice, group);
  }
}

const inForm = () => Object.fromEntries(state.choices.map(({ key }) => [key, $("set-" + key).value]));
const link = () => Object.entries(inForm()).map(([key, answer]) => `${key}=${answer}`).join("&");

// What cannot be asked as it stands in the form.
function wrong() {
  const isWrong = ({ key }) => !$("set-" + key).validity.valid;
  return state.choices.filter(isWrong).map(({ group, label, range: [min, max, step] }) => {
    const what = `no number from ${min} to ${max}, in steps of ${step}`;
    return `${group}, ${label}: ${what}; what is shown is of the setting before`;
  });
}

function complain(problems) {
  $("problems").replaceChildren(...problems.map((text) => make("p", null, {}, text)));
}

// Asks what a link stands for, and runs that.
function settle(link) {
  relieve();
  state.ask += 1;
  state.runs = true;
  state.asked = inForm();
  worker.postMessage({ link, ask: state.ask });
}

function settled({ answers, problems, link, file }) {
  for (const [key, answer] of Object.entries(answers)) {
    const field = $("set-" + key);
    // What was typed since is the next question: a slice may take seconds, and the answer waits for its end.
    if (field.value === state.asked[key]) field.value = answer;
  }
  complain([...problems, ...wrong()]);
  state.link = link;
  if (location.hash.slice(1) !== link) history.replaceState(null, "", "#" + link);
  $("file").textContent = state.file = file;
  if (state.runs) start();
}

// ---- a run

function start() {
  state.run += 1;
  state.follows = true;
  $("json").textContent = state.result = "";
  $("save-json").disabled = true;
  $("stop").disabled = false;
  $("bar").value = 0;
  $("status").textContent = "Both are running.";
  document.body.dataset.state = "running";
  worker.postMessage({ run: state.run, file: state.file });
}

function stop(text) {
  relieve();
  worker.postMessage({ run: 0 });
  state.run += 1;
  state.runs = false;
  ended(text);
}

function ended(text) {
  state.settling = false;
  $("stop").disabled = true;
  $("status").textContent = text;
  document.body.dataset.state = "ended";
}

function opened(opening) {
  const slices = opening.names.map(() => []);
  Object.assign(state, { opening, of: groupsOf(opening.uses), slices, at: 0 });
  const air = $("air");
  air.replaceChildren();
  opening.names.forEach((name, n) => {
    make("h3", air, {}, name);
    picture(air, "air-" + n, `Airtime of ${name} over time`);
    picture(air, "strip-" + n, `The medium under ${name}, frame by frame`);
  });
  const legend = $("lines-legend");
  legend.replaceChildren();
  opening.names.forEach((name, n) => {
    const entry = make("span", legend);
    lineSwatch(make("canvas", entry, { "aria-hidden": "true" }), n);
    entry.append(name);
  });
  $("table").replaceChildren();
  header();
  $("at").max = opening.steps;
  draw();
}

function stepped(steps) {
  for (const step of steps) step.runs.forEach((slice, n) => state.slices[n].push(slice));
  if (state.follows) state.at = state.slices[0].length;
  const last = steps.at(-1);
  if (last) $("bar").value = last.at / state.opening.seconds;
  // Once per frame of the screen, however often the worker tells.
  if (!state.frame) {
    state.frame = requestAnimationFrame(() => {
      state.frame = 0;
      draw();
    });
  }
}

function finished(text, took) {
  state.result = $("json").textContent = text;
  $("save-json").disabled = false;
  const { rows, void: problems } = JSON.parse(text);
  fillTable(state.opening.names.map((name) => rows.find((row) => row.variant === name) || {}));
  describe();
  draw();
  for (const problem of problems) make("p", $("problems"), {}, "Without figures: " + problem);
  const { seconds } = state.opening;
  const speed = `${number(seconds / took)} times as fast as real time`;
  ended(`Done: ${number(seconds)} s of each in ${number(took)} s, ${speed}.`);
}

// ---- pictures and the table

function picture(within, id, words) {
  make("canvas", within, { id, role: "img", "aria-label": words });
}

function draw() {
  if (!state.opening) return;
  const { opening: { steps, seconds, strip_ns }, slices, of, at } = state;
  slices.forEach((slices, n) => {
    drawAirtime($("air-" + n), slices, of, steps, seconds, at);
    drawStrip($("strip-" + n), slices[at - 1], of, strip_ns);
  });
  $("at").value = at;
  const end = ((at / steps) * seconds).toFixed(2);
  $("at-text").textContent = end;
  $("at").setAttribute("aria-valuetext", end + " s");
  CHARTS.forEach(({ of, mean }, n) => {
    const lines = slices.map((line) => line.map(of));
    drawLines($("chart-" + n), mean ? lines.map(smooth) : lines, steps, seconds);
  });
}

function smooth(line) {
  let sum = 0;
  return line.map((v, n) => {
    sum += v - (n >= MEAN_OF ? line[n - MEAN_OF] : 0);
    return Math.max(sum, 0) / Math.min(n + 1, MEAN_OF);
  });
}

// The pictures of airtime in words.
function describe() {
  state.opening.names.forEach((name, n) => {
    const shares = GROUPS.map(() => 0);
    for (const { air } of state.slices[n]) air.forEach((v, use) => (shares[state.of[use]] += v));
    const percent = (share) => number((share / state.slices[n].length) * 100);
    const words = GROUPS.map(({ label }, g) => `${label} ${percent(shares[g])} %`);
    $("air-" + n).setAttribute("aria-label", `Airtime of ${name}: ${words.join(", ")}`);
  });
}

function header() {
  const row = make("tr", make("thead", $("table")));
  make("th", row, { scope: "col" }, "");
  for (const name of state.opening.names) make("th", row, { scope: "col" }, name);
  make("th", row, { scope: "col" }, "A to B");
}

function fillTable(runs) {
  const body = make("tbody", $("table"));
  const has = ([, key]) => runs.some((run) => run[key] !== undefined);
  for (const [name, key, factor] of FIGURES.filter(has)) {
    const row = make("tr", body);
    make("th", row, { scope: "row" }, name);
    for (const run of runs) make("td", row, {}, number(run[key] * factor));
    const [a, b] = runs.map((run) => run[key]);
    make("td", row, {}, a !== undefined && b > 0 ? change(a / b) : "–");
  }
}

function change(ratio) {
  const percent = (ratio - 1) * 100;
  if (ratio >= 2) return `× ${number(ratio)}`;
  if (ratio > 0 && ratio <= 0.5) return `÷ ${number(1 / ratio)}`;
  const digits = Math.abs(percent) < 10 ? 1 : 0;
  return `${percent > 0 ? "+" : ""}${percent.toFixed(digits)} %`.replace("-", "−");
}

function save(name, text, type) {
  const href = URL.createObjectURL(new Blob([text], { type }));
  const anchor = make("a", null, { download: name, href });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

// ---- events

function told({ data }) {
  if (data.ready) {
    // A worker that was hired later changes nothing of the form.
    if (state.choices.length) return;
    state.choices = data.ready.choices;
    $("version").textContent = data.ready.version;
    makeForm(state.choices);
    for (const id of ["run", "reset", "save-file"]) $(id).disabled = false;
    settle(location.hash.slice(1));
  } else if (data.settings) {
    if (data.ask === state.ask) settled(data.settings);
  } else if (data.failed !== undefined) {
    // Of an older run, nobody asks any more.
    if (data.run === undefined || data.run === state.run) ended("It failed: " + data.failed);
  } else if (data.run === state.run) {
    if (data.opening) opened(data.opening);
    if (data.steps) stepped(data.steps);
    if (data.settling) {
      state.settling = true;
      $("status").textContent = "All has run; now whether each flow goes on.";
    }
    if (data.result !== undefined) finished(data.result, data.took);
  }
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  settle(link());
});
// What is shown is always of what is asked, or it is said that it is not.
$("form").addEventListener("change", () => {
  const problems = wrong();
  if (problems.length) complain(problems);
  else settle(link());
});
$("stop").addEventListener("click", () => {
  stop("Stopped.");
  // Who pressed a button that is no longer there would be nowhere.
  $("run").focus();
});
$("reset").addEventListener("click", () => settle(""));
$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    $("status").textContent = "The link is copied.";
  } catch {
    $("status").textContent = "The link is in the address bar: " + location.href;
  }
});
$("save-file").addEventListener("click", () => save("page.toml", state.file, "application/toml"));
$("save-json").addEventListener("click", () => save("page.json", state.result, "application/json"));
$("at").addEventListener("input", () => {
  const there = state.slices[0]?.length || 0;
  state.at = Math.min(Number($("at").value), there);
  state.follows = state.at === there;
  draw();
});
window.addEventListener("hashchange", () => {
  // Of a simulator that is not there yet the link is the first question.
  if (state.choices.length && location.hash.slice(1) !== state.link) settle(location.hash.slice(1));
});

function drawAll() {
  document.querySelectorAll("#legend canvas").forEach((canvas, n) => swatch(canvas, GROUPS[n].name));
  document.querySelectorAll("#lines-legend canvas").forEach((canvas, n) => lineSwatch(canvas, n));
  draw();
}
window.addEventListener("resize", drawAll);
// Paper has colours of its own.
for (const media of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(media).addEventListener("change", drawAll);
}

for (const { name, label } of GROUPS) {
  const entry = make("span", $("legend"));
  swatch(make("canvas", entry, { "aria-hidden": "true" }), name);
  entry.append(label);
}
CHARTS.forEach(({ title }, n) => {
  const figure = make("figure", $("charts"));
  make("figcaption", figure, {}, title);
  picture(figure, "chart-" + n, title + ", over time");
});
// Some browsers have them taken out, as iOS does in its Lockdown Mode.
const lacking = ["Worker", "WebAssembly", "DecompressionStream"].find((part) => !(part in window));
if (lacking) {
  const who = "Chromium 80, Firefox 113, Safari 16.4 and later have it unless it is switched off";
  ended(`This browser has no ${lacking}, which the simulator needs. ${who}.`);
} else {
  hire();
}
