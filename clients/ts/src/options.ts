import { SpireaError } from "./errors.js";
import type { Platform } from "./platform.js";
import { LONGEST_MS } from "./time.js";

/** How far something is that takes longer than a moment. */
export interface Progress {
  /** `hint`: the download of a hint. `keys`: the making of evaluation keys, told before and after. */
  phase: "hint" | "keys";
  /** Bytes that are there. */
  done: number;
  /** Bytes of all of it. */
  total: number;
}

/** A request that was sent: everything that leaves this machine, beside what the browser adds to any request. */
export interface SentRequest {
  /** Which server. */
  server: number;
  method: "GET" | "POST";
  url: string;
  /** Its body: what the server can see of a look-up. */
  body: Uint8Array;
}

/** How a client connects. */
export interface ConnectOptions {
  /** The database's name. */
  database: string;
  /**
   * The operator's public key, 64 hexadecimal digits: versions that it did not sign, and those that are older than what has
   * been seen, are refused.
   */
  pinnedKey?: string;
  /** The token that servers ask for. It is sent over https:// only, or to this machine. */
  token?: string;
  /**
   * Further addresses of the server, or a list of them for each server, asked in turn when one does not answer. Those of a server
   * must be the same party.
   */
  replicas?: readonly string[] | readonly (readonly string[])[];
  /** Ends connecting. */
  signal?: AbortSignal;
  /** Is told how far a hint or evaluation keys are, now and in later look-ups. */
  onProgress?: (progress: Progress) => void;
  /** Is shown every request, with a copy of its body. */
  onRequest?: (request: SentRequest) => void;
  /** How often a request is made at most to each address; 5 without. */
  attempts?: number;
  /**
   * The longest wait, in milliseconds, for the server to send anything more; 60,000 without. A request is given another second
   * for each 16 KiB of it.
   */
  timeout?: number;
  /** How long a request is tried again, in milliseconds; 60,000 without. */
  patience?: number;
  /** The longest pause before trying again, in milliseconds; 30,000 without. */
  maxPause?: number;
  /** The longest hint that is downloaded, and the most that is read of those that are kept; without, 256 MiB in browsers and 1 GiB in Node. */
  maxHintBytes?: number;
  /** Whether a database is asked under a pseudorandom function that few have analysed. */
  acceptWeakPrf?: boolean;
  /**
   * Where hints and evaluation keys are kept for the next visit: `persistent` (IndexedDB, in Node the folder `cache`), or
   * `memory`. `persistent` without; where there is no such place, memory serves, and `storage` says so.
   */
  keep?: "persistent" | "memory";
  /** Whether evaluation keys are kept too, with their secret: see docs/browser.md. In browsers; true without. */
  keepKeys?: boolean;
  /** The folder for hints, in Node. */
  cache?: string;
}

/** What does not cross to the worker is left out; what is not given is as it is by default. */
export interface Settings {
  addresses: string[][];
  database: string;
  pinnedKey?: string;
  token?: string;
  attempts?: number;
  timeout: number;
  patience?: number;
  maxPause?: number;
  maxHintBytes: number;
  acceptWeakPrf: boolean;
  keep: "persistent" | "memory";
  keepKeys: boolean;
  cache?: string;
  shown: boolean;
}

const HERE = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** An address as it is asked. */
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

/** An option, if it is given, is a whole number within these bounds. */
function whole(name: string, value: unknown, least: number, most: number = Number.MAX_SAFE_INTEGER): void {
  const holds = value === undefined || (Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most);
  demand(holds, `${name} is a whole number from ${least} to ${most}`);
}

/** An option, if it is given, is of this type. */
function typed(name: string, value: unknown, type: "string" | "boolean"): void {
  demand(value === undefined || typeof value === type, `${name} is a ${type}`);
}

/** Further addresses of each server; those of an only server may stand alone. */
function further(replicas: ConnectOptions["replicas"] = []): readonly (readonly string[])[] {
  const listed = Array.isArray(replicas);
  if (listed && replicas.length > 0 && replicas.every((address) => typeof address === "string")) return [replicas];
  const whole = listed && replicas.every((of) => Array.isArray(of));
  demand(whole, "replicas is an array of addresses, or an array with an array of them for each server");
  return replicas as readonly (readonly string[])[];
}

/** What the worker is told. */
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
  // Others are none that a header can have.
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
    ...(patience !== undefined && { patience }),
    ...(maxPause !== undefined && { maxPause }),
  };
}
