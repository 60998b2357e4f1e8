// Computes the committed vectors with the compiled client and reproducible randomness.

const encoder = new TextEncoder();

const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16));
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Computes a vector with the module. Returns the results by the names in vectors. */
export async function computed(module, { vector, hint }) {
  const { params, client, query, index, fetch } = vector;
  const [answers, fetched] = [vector.answers, fetch?.answers ?? []].map((all) => all.map(unhex));
  const body = [hint, ...answers, ...fetched];
  const lengths = (all) => all.map((bytes) => bytes.length);
  const head = encoder.encode(
    JSON.stringify({
      params,
      client,
      query,
      index,
      hint_bytes: body[0].length,
      answer_bytes: lengths(answers),
      fetch: fetch && { wanted: fetch.wanted, query: fetch.query, answer_bytes: lengths(fetched) },
    }),
  );
  const nothing = () => {
    throw new Error("a vector needs nothing of the world around it");
  };
  const names = ["random", "now", "progress", "ask_rules", "take_answer"];
  const spirea = Object.fromEntries(names.map((name) => [name, nothing]));
  const { exports } = await WebAssembly.instantiate(module, { spirea });
  const bodyBytes = body.reduce((sum, bytes) => sum + bytes.length, 0);
  const start = exports.input(4 + head.length + bodyBytes) >>> 0;
  new DataView(exports.memory.buffer).setUint32(start, head.length, true);
  const memory = new Uint8Array(exports.memory.buffer);
  let at = start + 4;
  for (const bytes of [head, ...body]) {
    memory.set(bytes, at);
    at += bytes.length;
  }
  exports.compute_vector();
  const left = new Uint8Array(exports.memory.buffer, exports.output() >>> 0, exports.output_length() >>> 0);
  const length = new DataView(left.buffer, left.byteOffset).getUint32(0, true);
  const made = JSON.parse(new TextDecoder().decode(left.slice(4, 4 + length)));
  const records = hex(left.slice(4 + length));
  const { record_bytes: recordBytes, ...rest } = made;
  return { ...rest, record: records.slice(0, 2 * recordBytes), fetched: records.slice(2 * recordBytes) };
}

/** Computes a vector in a page; the hint is a file of the site. */
export async function inPage({ vector, hint }) {
  const [module, bytes] = await Promise.all([
    WebAssembly.compileStreaming(fetch("/vectors.wasm")),
    fetch(`/${hint}`).then((response) => response.arrayBuffer()),
  ]);
  return computed(module, { vector, hint: new Uint8Array(bytes) });
}

/** Computes a vector in Node. */
export async function inNode({ vector, hint }) {
  const { readFile } = await import("node:fs/promises");
  const [module, bytes] = await Promise.all(["vectors.wasm", hint].map((name) => readFile(new URL(name, import.meta.url))));
  return computed(await WebAssembly.compile(module), { vector, hint: new Uint8Array(bytes) });
}
