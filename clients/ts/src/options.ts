import { SpireaError } from "./errors.js";
import type { Platform } from "./platform.js";
import { LONGEST_MS } from "./time.js";
import type { Options } from "./worker/heads.js";

/** Progress of a long step. */
export interface Progress {
  /** `hint`: the download of a hint. `keys`: the generation of evaluation keys, reported at its start and end only. */
  phase: "hint" | "keys";
  /** Bytes done. */
  done: number;
  /** Bytes in total. */
  total: number;
}

/** A request that was sent: everything that leaves this machine, except headers that the browser adds to any request. */
export interface SentRequest {
  /** Index of the server. */
  server: number;
  method: "GET" | "POST";
  url: string;
  /** The body: everything that the server sees of a look-up. */
  body: Uint8Array;
}

/** Options of a connection. */
export interface ConnectOptions {
  /** The database's name. */
  database: string;
  /**
   * The operator's public key, 64 hexadecimal digits. Versions that this key did not sign are refused, and so are versions older
   * than one seen before.
   */
  pinnedKey?: string;
  /** The token that servers require. It is sent only over https://, or to this machine. */
  token?: string;
  /**
   * Further addresses of the server, or a list of them for each server, tried in turn when one does not answer. All addresses of
   * a server must belong to the same party.
   */
  replicas?: readonly string[] | readonly (readonly string[])[];
  /** Cancels connecting. */
  signal?: AbortSignal;
  /** Called with the progress of a hint or of evaluation keys, now and in later look-ups. */
  onProgress?: (progress: Progress) => void;
  /** Called with every request, with a copy of its body. */
  onRequest?: (request: SentRequest) => void;
  /** Most attempts of a request at each address; the default is 5. */
  attempts?: number;
  /**
   * The longest time of a request with its response, in milliseconds; the default is 60,000. Each 16 KiB of either extends it by
   * a second.
   */
  timeout?: number;
  /** The longest time of retrying a request, in milliseconds; the default is 60,000. */
  patience?: number;
  /** The longest pause before a retry, in milliseconds; the default is 30,000. */
  maxPause?: number;
  /**
   * The longest hint that is downloaded, and the most bytes read of stored hints; the default is 256 MiB in browsers and 1 GiB in
   * Node.
   */
  maxHintBytes?: number;
  /** True to accept a database whose pseudorandom function has had little analysis. */
  acceptWeakPrf?: boolean;
  /**
   * Storage of hints and evaluation keys for the next visit: `persistent` (IndexedDB, in Node the folder `cache`), or `memory`.
   * The default is `persistent`. If there is no such storage, memory is used, and `storage` reports it.
   */
  keep?: "persistent" | "memory";
  /** True to store evaluation keys too, with their secret: see docs/browser.md. In browsers only; the default is true. */
  keepKeys?: boolean;
  /** The folder for hints, in Node. */
  cache?: string;
}

/** Options for the worker, without callbacks and signals. */
export interface Settings extends Options {
  maxHintBytes: number;
  timeout: number;
  token?: string;
  keep: "persistent" | "memory";
  keepKeys: boolean;
  cache?: string;
  shown: boolean;
}

const HERE = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Checks an address and returns the URL to ask. */
function checked(address: unknown, withToken: boolean, base: string | undefined): string {
  const bad = (what: string) => new SpireaError("bad-address", `${String(address)}: ${what}`);
  if (typeof address !== "string") throw bad("an address is a string");
  let url: URL;
  try {
    url = new URL(address, base);
  } catch {
    throw bad("it is no address; one begins with http:// or https://");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") throw bad("an address begins with http:// or https://");
  if (url.username || url.password) throw bad("nothing may stand before the host; a token is an option of its own");
  if (url.search || url.hash) throw bad("an address has no ? or # and what follows them");
  if (withToken && url.protocol === "http:" && !HERE.test(url.hostname)) {
    const text = `${address}: whoever sees the network would see the token; give an address that begins with https://`;
    throw new SpireaError("bad-option", text);
  }
  return url.href;
}

function demand(holds: boolean, what: string): void {
  if (!holds) throw new SpireaError("bad-option", what);
}

/** Checks that an option, if given, is an integer within these bounds. */
function whole(name: string, value: unknown, least: number, most: number = Number.MAX_SAFE_INTEGER): void {
  const holds = value === undefined || (Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most);
  demand(holds, `${name} is a whole number from ${least} to ${most}`);
}

/** Checks that an option, if given, is of this type. */
function typed(name: string, value: unknown, type: "string" | "boolean"): void {
  demand(value === undefined || typeof value === type, `${name} is a ${type}`);
}

/** Returns the further addresses of each server. For one server, a flat array of addresses is enough. */
function further(replicas: ConnectOptions["replicas"] = []): readonly (readonly string[])[] {
  const listed = Array.isArray(replicas);
  if (listed && replicas.length > 0 && replicas.every((address) => typeof address === "string")) return [replicas];
  const whole = listed && replicas.every((of) => Array.isArray(of));
  demand(whole, "replicas is an array of addresses, or an array with an array of them for each server");
  return replicas as readonly (readonly string[])[];
}

/** Checks the options, and returns the worker's settings. */
export function settings(urls: string | readonly string[], options: ConnectOptions, platform: Platform): Settings {
  const { database, keep = "persistent" } = options;
  const firsts = typeof urls === "string" ? [urls] : urls;
  const { attempts, timeout = 60_000, patience, maxPause, maxHintBytes = platform.maxHintBytes } = options;
  if (!Array.isArray(firsts)) throw new SpireaError("bad-address", "an address is a string, and two are an array of them");
  demand(typeof database === "string", "database is the name of a database");
  const replicas = further(options.replicas);
  demand(replicas.length <= firsts.length, "there are further addresses of more servers than there are servers");
  demand(keep === "persistent" || keep === "memory", "keep is persistent or memory");
  typed("pinnedKey", options.pinnedKey, "string");
  typed("cache", options.cache, "string");
  typed("keepKeys", options.keepKeys, "boolean");
  typed("acceptWeakPrf", options.acceptWeakPrf, "boolean");
  typed("token", options.token, "string");
  // A header cannot contain other characters.
  demand(/^[\x21-\x7e]+$/.test(options.token ?? "-"), "token is of letters, digits and signs of ASCII, without spaces");
  whole("attempts", attempts, 1, 2 ** 32 - 1);
  whole("timeout", timeout, 1, LONGEST_MS);
  whole("patience", patience, 0);
  whole("maxPause", maxPause, 0, LONGEST_MS);
  whole("maxHintBytes", maxHintBytes, 0);
  const withToken = options.token !== undefined;
  const addresses = firsts.map((first, i) =>
    [first, ...(replicas[i] ?? [])].map((address) => checked(address, withToken, platform.base)),
  );
  return {
    addresses,
    database,
    timeout,
    maxHintBytes,
    acceptWeakPrf: options.acceptWeakPrf ?? false,
    keep,
    keepKeys: options.keepKeys ?? true,
    shown: options.onRequest !== undefined,
    ...(options.pinnedKey !== undefined && { pinnedKey: options.pinnedKey }),
    ...(options.token !== undefined && { token: options.token }),
    ...(options.cache !== undefined && { cache: options.cache }),
    ...(attempts !== undefined && { attempts }),
    ...(patience !== undefined && { patienceMs: patience }),
    ...(maxPause !== undefined && { maxPauseMs: maxPause }),
  };
}
