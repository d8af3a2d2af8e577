// Runs a .tflite file that has signatures with fixed lengths in LiteRT.js.
import { loadAndCompile, loadLiteRt, Tensor } from "@litertjs/core";

const WASM = "vendor/litert/wasm/";
const POSITIONS = "masked_lm_positions";

export class Model {
  // Loads LiteRT.js (with threads if the browser isolates the page) and a model.
  static async load(content) {
    const threads = globalThis.crossOriginIsolated && (await withThreads());
    if (!threads) await loadLiteRt(WASM);
    return new Model(await loadAndCompile(content, { accelerator: "wasm" }));
  }

  constructor(compiled) {
    this.compiled = compiled;
    this.threads = compiled.options.cpuOptions.numThreads;
    this.signatures = Object.entries(compiled.signatures)
      .map(([name, runner]) => {
        const shapes = Object.fromEntries(
          runner.getInputDetails().map((input) => [input.name, Array.from(input.shape)]),
        );
        return { name, shapes, length: shapes.input_ids.at(-1) };
      })
      .sort((one, other) => one.length - other.length);
    this.length = this.signatures.at(-1).length; // maximum row length
    this.masks = this.signatures[0].shapes[POSITIONS]?.at(-1) ?? null; // positions per call
  }

  // Runs a row with the shortest signature that it fits into.
  // Returns `outputs` (values and shapes, keyed by name), the signature's name, and `milliseconds`.
  async run(ids, types, positions = []) {
    const signature = this.signatures.find((each) => ids.length <= each.length);
    const rows = {
      input_ids: ids,
      attention_mask: ids.map(() => 1),
      token_type_ids: types,
      [POSITIONS]: positions,
    };
    const inputs = {};
    for (const [name, shape] of Object.entries(signature.shapes)) {
      const values = new Int32Array(shape.reduce((product, size) => product * size));
      values.set(rows[name]);
      inputs[name] = new Tensor(values, shape);
    }
    const start = performance.now();
    const found = await this.compiled.run(signature.name, inputs);
    const outputs = {};
    for (const { name, shape } of this.compiled.signatures[signature.name].getOutputDetails()) {
      outputs[name] = { values: found[name].toTypedArray().slice(), shape: Array.from(shape) };
    }
    const milliseconds = performance.now() - start;
    for (const tensor of [...Object.values(inputs), ...Object.values(found)]) tensor.delete();
    return { outputs, signature: signature.name, milliseconds };
  }
}

// Returns whether the threaded build loads, which also needs relaxed SIMD.
async function withThreads() {
  try {
    await loadLiteRt(WASM, { threads: true });
    return true;
  } catch {
    return false;
  }
}
