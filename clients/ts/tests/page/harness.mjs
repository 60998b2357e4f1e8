// Functions that the tests call, in a page and in Node. They use the package by its name, and return results as plain data.

import { Client, SpireaError } from "spirea";

/** Timeout in milliseconds, far longer than any call takes. A longer call has stalled. */
const STALLED = 90_000;

const clients = new Map();
const begun = new Map();
let progress = [];
let requests = [];

function shown(error) {
  const { name, code, message, status, refusal, party, url } = error ?? {};
  return { typed: error instanceof SpireaError, name, code, message, status, refusal, party, url, text: `${error}` };
}

async function attempt(act) {
  let timer;
  const stalled = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("stalled")), STALLED);
  });
  try {
    return { done: (await Promise.race([act(), stalled])) ?? null };
  } catch (error) {
    return { failed: shown(error) };
  } finally {
    clearTimeout(timer);
  }
}

function plain(values) {
  return values.map((value) => {
    if (value === undefined) return null;
    return value === "dropped" ? value : value.names.map((name) => value.text(name));
  });
}

const known = (client) => ({ description: client.description, storage: client.storage });

export function connect(id, url, options) {
  return attempt(async () => {
    const told = {
      onProgress: (event) => progress.push(event),
      onRequest: ({ server, method, url, body }) => requests.push({ server, method, url, bytes: body.length }),
    };
    const client = await Client.connect(url, { ...told, ...options });
    clients.set(id, client);
    return known(client);
  });
}

/** Converts keys of types that the tests' messages cannot carry: `{date: MILLISECONDS}` and `{bigint: DIGITS}`. */
function revived(key) {
  if (key?.date !== undefined) return new Date(key.date);
  return key?.bigint !== undefined ? BigInt(key.bigint) : key;
}

export function lookUp(id, keys) {
  return attempt(async () => {
    const client = clients.get(id);
    const { values, versions, timings } = await client.lookUp(keys.map(revived));
    return { values: plain(values), versions, timings, ...known(client) };
  });
}

/** Looks up texts, given as ArrayBuffers of their bytes. */
export const lookUpBuffers = (id, texts) =>
  lookUp(
    id,
    texts.map((text) => new TextEncoder().encode(text).buffer),
  );

/** Returns the text of a field of a key's value. */
export const textOf = (id, key, field) => attempt(async () => (await clients.get(id).get(key)).text(field));

export const fetchOnce = (id, keys) => attempt(async () => plain((await clients.get(id).fetch(keys)).values));

/** Looks up domains with their parents. Returns matches as names and the fields of their values. */
export const domains = (id, names, options) =>
  attempt(async () => {
    const found = await clients.get(id).getDomains(names, options);
    return found.map(({ matches, ...names }) => {
      const values = plain([...matches.values()]);
      return { matches: [...matches.keys()].map((name, i) => [name, ...values[i]]), ...names };
    });
  });

export const close = (id) => attempt(() => clients.get(id).close());

/** Starts a look-up, or a connection if given a URL, and does not wait for it. */
export function begin(id, keys, url, options) {
  const abort = new AbortController();
  const signal = abort.signal;
  const act = async () => {
    if (url === undefined) return plain(await clients.get(id).getMany(keys, { signal }));
    clients.set(id, await Client.connect(url, { ...options, signal }));
    return null;
  };
  begun.set(id, { abort, outcome: attempt(act) });
}

/** Starts a look-up and aborts it in the same task. */
export function beginAborted(id, keys, reason) {
  begin(id, keys);
  abort(id, reason);
}

export function abort(id, reason) {
  begun.get(id).abort.abort(reason);
}

/** Returns a client's current description and storage. */
export const standing = (id) => known(clients.get(id));

export const outcome = (id) => begun.get(id).outcome;

/** Returns the progress and the requests reported since the last call. */
export function told() {
  const all = { progress, requests };
  [progress, requests] = [[], []];
  return all;
}
