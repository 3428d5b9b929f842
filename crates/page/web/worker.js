"use strict";
// The simulator's side: it owns the module, runs slices, and tells the page.
let module;
let compiled;
// What is asked waits until the module is there.
let loading;
// Which run is wanted; another number, or none, ends the one under way.
let wanted = 0;

// A module's memory never shrinks: one that has more is not kept for the next run.
const MOST_KEPT_BYTES = 256 << 20;

async function load(base64) {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(plain).arrayBuffer();
  compiled = await WebAssembly.compile(bytes);
  await begin();
}

async function begin() {
  module = (await WebAssembly.instantiate(compiled, {})).exports;
}

// What a panic said. The module stands where it broke; another takes its place.
async function broke() {
  const said = call("panic");
  await begin();
  return "the simulator broke: " + said;
}

function call(name, text = "") {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > 0) {
    const at = module.tack_page_input(bytes.length);
    if (at === 0) throw new Error("the text is too long");
    new Uint8Array(module.memory.buffer, at, bytes.length).set(bytes);
  }
  const length = module["tack_page_" + name]();
  const answer = new Uint8Array(module.memory.buffer, module.tack_page_output(), length);
  return JSON.parse(new TextDecoder().decode(answer));
}

function asked(name, text) {
  const answer = call(name, text);
  if (answer && answer.error !== undefined) throw new Error(answer.error);
  return answer;
}

const pause = () => new Promise((go) => setTimeout(go));

async function run(number, file) {
  if (module.memory.buffer.byteLength > MOST_KEPT_BYTES) {
    loading = loading.then(begin);
    await loading;
    if (wanted !== number) return;
  }
  const began = performance.now();
  postMessage({ opening: asked("open", file), run: number });
  let steps = [];
  let told = performance.now();
  for (;;) {
    const step = asked("step");
    if (step) steps.push(step);
    // As often as a screen is drawn.
    if (!step || performance.now() - told > 33) {
      postMessage({ steps, run: number });
      steps = [];
      await pause();
      if (wanted !== number) return;
      told = performance.now();
    }
    if (!step) break;
  }
  // In one piece, and long where a flow stands still: whoever cannot wait ends this worker.
  postMessage({ settling: true, run: number });
  const { text } = asked("finish");
  postMessage({ result: text, run: number, took: (performance.now() - began) / 1e3 });
}

onmessage = async ({ data }) => {
  try {
    if (data.wasm !== undefined) loading = load(data.wasm);
    await loading;
    if (data.wasm !== undefined) {
      postMessage({ ready: call("choices") });
    } else if (data.link !== undefined) {
      postMessage({ settings: call("settings", data.link), ask: data.ask });
    } else {
      wanted = data.run;
      if (wanted) await run(wanted, data.file);
    }
  } catch (e) {
    const why = e instanceof WebAssembly.RuntimeError ? await broke() : String(e.message || e);
    postMessage({ failed: why, run: data.run });
  }
};
