"use strict";
// Pictures on canvases: airtime over time, the medium frame by frame, lines.

// How the medium's uses are grouped, from the bottom up; the lab's figures group them alike.
const GROUPS = [
  { name: "data", label: "Data", uses: ["data"] },
  { name: "ack", label: "ACKs of the transport", uses: ["ack"] },
  { name: "control", label: "Control", uses: ["control", "beacon", "lost", "neighbour"] },
  { name: "collision", label: "Collisions", uses: ["collision"] },
  { name: "idle", label: "Idle", uses: ["contention", "idle"] },
];

const colour = (name) => {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
};

// A canvas as sharp as the screen; what is drawn counts in CSS pixels.
function fit(canvas, height) {
  const width = canvas.clientWidth || 26;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const ctx = canvas.getContext("2d");
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.font = "12px sans-serif";
  return { ctx, width, height };
}

// A fill for each group that grey tells apart, too: solid, striped, pale, black, blank.
function fills(ctx) {
  const stripes = (ground, line) => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const on = tile.getContext("2d");
    on.fillStyle = ground;
    on.fillRect(0, 0, 6, 6);
    on.strokeStyle = line;
    on.lineWidth = 1.5;
    for (const x of [-6, 0, 6]) {
      on.beginPath();
      on.moveTo(x - 1, 7);
      on.lineTo(x + 7, -1);
      on.stroke();
    }
    return ctx.createPattern(tile, "repeat");
  };
  return {
    data: colour("data"),
    ack: stripes(colour("ack"), "#000"),
    control: colour("control"),
    collision: colour("collision"),
    idle: colour("paper"),
  };
}

// Which group each use is of, by the use's number.
const groupsOf = (uses) => uses.map((use) => GROUPS.findIndex((g) => g.uses.includes(use)));

function swatch(canvas, name) {
  const { ctx, width, height } = fit(canvas, 14);
  ctx.fillStyle = fills(ctx)[name];
  ctx.fillRect(0, 0, width, height);
  ctx.strokeStyle = colour("soft");
  ctx.strokeRect(0.5, 0.5, width - 1, height - 1);
}

// Shares of the medium's time, a bar per slice; `at` marks the slice whose strip is shown.
function drawAirtime(canvas, slices, of, steps, seconds, at) {
  const { ctx, width } = fit(canvas, 112);
  const [top, bottom] = [4, 90];
  const fill = fills(ctx);
  const x = (n) => (n / steps) * width;
  slices.forEach((slice, n) => {
    const shares = GROUPS.map(() => 0);
    slice.air.forEach((share, use) => (shares[of[use]] += share));
    let y = bottom;
    GROUPS.forEach((group, g) => {
      const height = shares[g] * (bottom - top);
      ctx.fillStyle = fill[group.name];
      // Over the next bar's edge, so that no line shows between them.
      ctx.fillRect(x(n), y - height, x(n + 1) - x(n) + (n + 1 < slices.length ? 0.6 : 0), height);
      y -= height;
    });
  });
  ctx.strokeStyle = colour("soft");
  ctx.strokeRect(0.5, top + 0.5, width - 1, bottom - top);
  if (slices.length) {
    const mark = Math.min(Math.max(x(at), 1), width - 1);
    ctx.fillStyle = colour("ink");
    ctx.beginPath();
    ctx.moveTo(mark, bottom + 1);
    ctx.lineTo(mark - 5, bottom + 9);
    ctx.lineTo(mark + 5, bottom + 9);
    ctx.fill();
  }
  timeAxis(ctx, 0, width, bottom + 20, seconds);
}

// Seconds under a picture.
function timeAxis(ctx, left, right, y, seconds) {
  ctx.fillStyle = colour("ink");
  ctx.textBaseline = "alphabetic";
  const step = niceStep(seconds, Math.max(2, Math.floor((right - left) / 70)));
  for (let t = 0; t <= seconds + 1e-9; t += step) {
    const x = left + (t / seconds) * (right - left);
    const text = t === 0 ? "0 s" : number(t);
    const half = ctx.measureText(text).width / 2;
    ctx.textAlign = "center";
    ctx.fillText(text, Math.min(Math.max(x, left + half), right - half), y);
  }
}

// The medium's last moments, frame by frame.
function drawStrip(canvas, slice, of, stripNs) {
  const { ctx, width } = fit(canvas, 46);
  const [top, bottom] = [2, 28];
  const fill = fills(ctx);
  if (slice) {
    const known = slice.strip.reduce((sum, [, ns]) => sum + ns, 0);
    let x = ((stripNs - known) / stripNs) * width;
    for (const [use, ns] of slice.strip) {
      const w = (ns / stripNs) * width;
      const group = GROUPS[of[use]].name;
      if (group !== "idle") {
        ctx.fillStyle = fill[group];
        // A frame too short to be seen is seen all the same.
        ctx.fillRect(x, top, Math.max(w, 0.5), bottom - top);
      }
      x += w;
    }
  }
  ctx.strokeStyle = colour("soft");
  ctx.strokeRect(0.5, top + 0.5, width - 1, bottom - top);
  ctx.fillStyle = colour("ink");
  for (const ms of [0, 5, 10, 15, 20]) {
    ctx.textAlign = ms === 0 ? "left" : ms === 20 ? "right" : "center";
    ctx.fillText(ms === 20 ? "0" : `−${20 - ms} ms`, (ms / 20) * width, bottom + 14);
  }
}

// A few round numbers up to `most`.
function niceStep(most, count) {
  const rough = most / count;
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough * 0.999) || 10 * power;
}

// A number in four digits or so, with a comma per thousand.
function number(v) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  const digits = Math.abs(v) >= 100 ? 0 : Math.abs(v) >= 10 ? 1 : 2;
  return v.toLocaleString("en", { maximumFractionDigits: digits });
}

// Lines over the run's time: the first solid, the second dashed.
function drawLines(canvas, lines, steps, seconds) {
  const { ctx, width, height } = fit(canvas, 170);
  const all = lines.flat().filter((v) => v !== null);
  const highest = all.reduce((a, b) => Math.max(a, b), 0);
  const step = niceStep(highest || 1, 4);
  const most = Math.max(step * Math.ceil(highest / step), step);
  const ticks = [];
  for (let v = 0; v <= most * 1.001; v += step) ticks.push(v);
  const left = Math.max(...ticks.map((v) => ctx.measureText(number(v)).width)) + 8;
  const [top, right, bottom] = [8, width - 2, height - 20];
  const y = (v) => bottom - (v / most) * (bottom - top);
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const v of ticks) {
    ctx.fillStyle = colour("ink");
    ctx.fillText(number(v), left - 5, y(v));
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 0.5;
    ctx.beginPath();
    ctx.moveTo(left, y(v));
    ctx.lineTo(right, y(v));
    ctx.stroke();
  }
  timeAxis(ctx, left, right, height - 5, seconds);
  const x = (n) => left + ((n + 1) / steps) * (right - left);
  lines.forEach((line, which) => drawLine(ctx, line, which, x, y));
}

const DASHES = [[], [7, 4]];

function drawLine(ctx, line, which, x, y) {
  ctx.strokeStyle = colour(which === 0 ? "a" : "b");
  ctx.lineWidth = 1.8;
  ctx.setLineDash(DASHES[which]);
  ctx.beginPath();
  let down = false;
  line.forEach((v, n) => {
    if (v !== null) ctx[down ? "lineTo" : "moveTo"](x(n), y(v));
    down = v !== null;
  });
  ctx.stroke();
  ctx.setLineDash([]);
}

function lineSwatch(canvas, which) {
  const { ctx, width } = fit(canvas, 14);
  drawLine(ctx, [0, 0], which, (n) => n * width, () => 7);
}
