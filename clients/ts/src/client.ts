import { SpireaError, closed, revived, stopped } from "./errors.js";
import type { Call, Description, Found, Outcome, Reply, Standing, Storage, Timings, Wanted } from "./messages.js";
import { type ConnectOptions, type Settings, settings } from "./options.js";
import { type Ears, type Platform, type Port, provided } from "./platform.js";
import { Value } from "./value.js";

/**
 * A key: text, encoded as UTF-8; bytes; or an integer as a bigint, a boolean or a Date, which are looked up by their canonical
 * text (docs/tables.md, "Types"). In a table without keys, an index.
 */
export type Key = string | Uint8Array | ArrayBuffer | bigint | boolean | Date | number;

/** Options of a look-up. The signal cancels it. */
export interface LookUpOptions {
  signal?: AbortSignal;
}

/** Values of look-ups, and their costs. */
export interface LookUps {
  /** Values in the order of the keys; `undefined` for a key that the table does not have. */
  values: (Value | undefined)[];
  /** For each value, the version of the database that answered: 64 hexadecimal digits. */
  versions: string[];
  timings: Timings;
}

/** Result of a fetch, which is one query. */
export interface Fetches {
  /**
   * Values in the order of the keys: `undefined` for a key that the table does not have, and `"dropped"` for a key whose bin is
   * used by an earlier key. Another fetch may bring a dropped value.
   */
  values: (Value | undefined | "dropped")[];
  /** For each value, the version of the database that answered: 64 hexadecimal digits. */
  versions: string[];
  timings: Timings;
}

/** Options of a look-up of domains. */
export interface DomainOptions extends LookUpOptions {
  /** Look-ups for each domain: its name, its shortest parents, and dummies. From 1 to 127; the default is 4. */
  parents?: number;
}

/** The values of a domain name and of its parents in a table. */
export interface Domain {
  /** Values by name, for the names that the table has, from the longest name to the shortest. */
  matches: Map<string, Value>;
  /** The names that were looked up: the name itself, then its parents. */
  asked: string[];
  /** Parents that were not looked up because the name has more labels than there are look-ups. */
  unasked: string[];
}

/** A call that the worker executes, or has yet to start. */
interface Waiting {
  resolve(found: Found | undefined): void;
  reject(error: unknown): void;
}

/** Calls to the worker, which does all computation, so that awaiting a call does not block the page. */
class Calls implements Ears {
  readonly #options: ConnectOptions;
  /** The address of the server if there is only one; its errors need not contain the address. */
  readonly #url: string | undefined;
  readonly #port: Port;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;
  /** Reason why the worker has ended. */
  #ended: SpireaError | undefined;
  /** True once the worker has sent any message. */
  #heard = false;
  standing: Standing | undefined;

  constructor(platform: Platform, options: ConnectOptions, { addresses }: Settings) {
    this.#options = options;
    this.#url = addresses.length === 1 ? addresses[0]![0] : undefined;
    this.#port = platform.spawn(this);
  }

  async call(message: (id: number) => Call, signal: AbortSignal | undefined): Promise<Found | undefined> {
    // A call that is aborted in the same task sends nothing.
    await null;
    signal?.throwIfAborted();
    if (this.#ended) throw this.#ended;
    const id = this.#next++;
    let abort: (() => void) | undefined;
    try {
      return await new Promise<Found | undefined>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        abort = () => {
          this.#port.send({ call: "abort", id });
          reject(signal?.reason);
        };
        signal?.addEventListener("abort", abort);
        this.#port.hold(true);
        this.#port.send(message(id));
      });
    } finally {
      if (abort) signal?.removeEventListener("abort", abort);
      this.#waiting.delete(id);
      this.#port.hold(this.#waiting.size > 0);
    }
  }

  reply(reply: Reply): void {
    this.#heard = true;
    switch (reply.reply) {
      case "progress":
        this.#options.onProgress?.(reply.progress);
        break;
      case "request":
        this.#options.onRequest?.(reply.request);
        break;
      case "standing":
        this.standing = reply.standing;
        break;
      case "done":
        this.#waiting.get(reply.id)?.resolve(reply.found);
        break;
      case "failed":
        this.#waiting.get(reply.id)?.reject(revived({ ...(this.#url !== undefined && { url: this.#url }), ...reply.error }));
        // A worker that stopped cannot be used again: its memory may be inconsistent.
        if (reply.error.code === "internal") this.end(stopped());
        break;
    }
  }

  died(): void {
    this.end(this.#heard ? stopped() : new SpireaError("no-worker", NEVER_STARTED));
  }

  end(why: SpireaError): void {
    this.#ended ??= why;
    this.#port.end();
    for (const waiting of this.#waiting.values()) waiting.reject(this.#ended);
  }
}

/** A client of one database, served by one server or by two, as its protocol requires. */
export class Client {
  readonly #calls: Calls;

  /**
   * Connects to a database on the server at `url`, or on the two servers of a protocol with two, in any order. Fetches the
   * configuration, and the hint unless an earlier visit has stored it.
   * @throws SpireaError, and the reason of the signal.
   */
  static async connect(url: string | readonly string[], options: ConnectOptions): Promise<Client> {
    const platform = provided();
    const given = settings(url, options, platform);
    options.signal?.throwIfAborted();
    const calls = started(platform, options, given);
    try {
      await calls.call((id) => ({ call: "connect", id, settings: given }), options.signal);
    } catch (error) {
      calls.end(closed());
      throw error;
    }
    return new Client(calls);
  }

  private constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Description of the database, in the version last seen. */
  get description(): Description {
    return this.#standing().description;
  }

  /** Storage of hints and evaluation keys. */
  get storage(): Storage {
    return this.#standing().storage;
  }

  /**
   * Looks up a key. Returns its value, or `undefined` if the table does not have the key; an error is never reported as
   * `undefined`.
   * @throws SpireaError, and the reason of the signal.
   */
  async get(key: Key, options?: LookUpOptions): Promise<Value | undefined> {
    return (await this.getMany([key], options))[0];
  }

  /**
   * Looks up keys in as few requests as possible. Returns their values, in the same order. Servers learn the number of keys.
   * @throws SpireaError, and the reason of the signal.
   */
  async getMany(keys: readonly Key[], options?: LookUpOptions): Promise<(Value | undefined)[]> {
    return (await this.lookUp(keys, options)).values;
  }

  /**
   * Looks up keys as {@link getMany} does. Returns the values, their versions and the costs.
   * @throws SpireaError, and the reason of the signal.
   */
  async lookUp(keys: readonly Key[], options?: LookUpOptions): Promise<LookUps> {
    const { outcomes, versions, timings } = await this.#ask(keys, false, options);
    const values = outcomes.map((outcome, i) => {
      const value = this.#value(outcome, versions[i]!);
      return value === "dropped" ? undefined : value;
    });
    return { values, versions, timings };
  }

  /**
   * Fetches values of several keys with one query, which brings one value of each bin of the table, whatever the number of keys.
   * All fetches look alike to the servers.
   * @throws SpireaError, and the reason of the signal.
   */
  async fetch(keys: readonly Key[], options?: LookUpOptions): Promise<Fetches> {
    const { outcomes, versions, timings } = await this.#ask(keys, true, options);
    return { values: outcomes.map((outcome, i) => this.#value(outcome, versions[i]!)), versions, timings };
  }

  /**
   * Looks up a domain name and its shortest parents, such as `example.com` and `com` for `www.example.com`. The number of
   * look-ups is always `parents`, padded with dummies.
   * @throws SpireaError, and the reason of the signal.
   */
  async getDomain(name: string, options?: DomainOptions): Promise<Domain> {
    return (await this.getDomains([name], options))[0]!;
  }

  /**
   * Looks up several domain names as {@link getDomain} does, with `parents` look-ups for each.
   * @throws SpireaError, and the reason of the signal.
   */
  async getDomains(names: readonly string[], options: DomainOptions = {}): Promise<Domain[]> {
    const { parents: count = 4 } = options;
    if (!names.every((name) => typeof name === "string")) throw new SpireaError("bad-request", "a domain is a string");
    // A domain name has at most 127 labels.
    if (!Number.isInteger(count) || count < 1 || count > 127) {
      throw new SpireaError("bad-request", "parents is a whole number from 1 to 127");
    }
    const { outcomes, versions, domains = [] } = await this.#find({ domains: [...names], count }, false, options);
    return domains.map(({ names: asked, unasked }, domain) => {
      const matches = new Map<string, Value>();
      asked.forEach((name, i) => {
        const place = domain * count + i;
        const value = this.#value(outcomes[place]!, versions[place]!);
        if (value instanceof Value) matches.set(name, value);
      });
      return { matches, asked, unasked };
    });
  }

  /** Closes the client: running calls fail, and its memory is released, with all secrets. */
  async close(): Promise<void> {
    const late = AbortSignal.timeout(2000);
    // Lets the worker store its keys for the next visit, with a timeout in case it hangs.
    await this.#calls.call((id) => ({ call: "close", id }), late).catch(() => undefined);
    this.#calls.end(closed());
  }

  async #ask(keys: readonly Key[], fetch: boolean, options: LookUpOptions = {}): Promise<Found> {
    return this.#find(wanted(keys), fetch, options);
  }

  async #find(wanted: Wanted, fetch: boolean, options: LookUpOptions): Promise<Found> {
    const found = await this.#calls.call((id) => ({ call: "lookUp", id, wanted, fetch }), options.signal);
    return found ?? { outcomes: [], versions: [], timings: NOTHING };
  }

  #value(outcome: Outcome, version: string): Value | undefined | "dropped" {
    if (outcome === "absent") return undefined;
    if (outcome === "dropped") return outcome;
    const { fields, types } = this.description;
    return new Value(fields, outcome.value, version, types);
  }

  #standing(): Standing {
    const { standing } = this.#calls;
    if (standing === undefined) throw closed();
    return standing;
  }
}

const NOTHING: Timings = {
  requests: 0,
  sentBytes: 0,
  receivedBytes: 0,
  keysBytes: 0,
  queryMs: 0,
  serverMs: 0,
  networkMs: 0,
  decodeMs: 0,
  keysMs: 0,
};

const NEVER_STARTED =
  "the client's worker did not start: its files have to come from the page's own origin, beside each other, and the page's " +
  "policy has to allow them (worker-src, script-src 'wasm-unsafe-eval')";

function started(platform: Platform, options: ConnectOptions, given: Settings): Calls {
  try {
    return new Calls(platform, options, given);
  } catch {
    throw new SpireaError("no-worker", NEVER_STARTED);
  }
}

/** Converts the arguments of a look-up: all keys, or all indices. */
function wanted(keys: readonly Key[]): Wanted {
  if (keys.length > 0 && keys.every((key) => typeof key === "number")) {
    if (keys.every((index) => Number.isSafeInteger(index) && index >= 0)) return { indices: [...keys] };
    throw new SpireaError("bad-request", "an index is a whole number of at least 0");
  }
  const bytes = (key: Key) => {
    if (key instanceof Uint8Array) return key.slice();
    if (key instanceof ArrayBuffer) return new Uint8Array(key.slice(0));
    const text = textOf(key);
    if (text !== undefined) return new TextEncoder().encode(text);
    const kinds = "a string, a Uint8Array, an ArrayBuffer, a bigint, a boolean or a Date up to the year 9999";
    throw new SpireaError("bad-request", `a key is ${kinds}, an index is a number, and all are alike`);
  };
  return { keys: keys.map(bytes) };
}

/** Returns the canonical text of a key; `undefined` if it has none. */
function textOf(key: Key): string | undefined {
  if (typeof key === "string") return key;
  if (typeof key === "bigint" || typeof key === "boolean") return String(key);
  if (!(key instanceof Date) || Number.isNaN(key.getTime())) return undefined;
  // The canonical text has no trailing zeros in a fraction.
  const text = key.toISOString().replace(/\.?0*Z$/, "Z");
  return /^\d{4}-/.test(text) ? text : undefined;
}
