// The connection to one server: carries out a conversation's requests by fetch.

import type { SentRequest } from "../options.js";
import { within } from "../time.js";
import type { Came as Head, Kind, ToSend } from "./heads.js";

/** Result of a step, in the format of the instance. */
export interface Came {
  head: Head;
  body?: Uint8Array;
}

/** Bytes handed on at a time, and most bytes read beyond what a conversation needs. */
const PIECE_BYTES = 1 << 18;
/** Least rate of a request or a response in bytes per millisecond, 16 KiB/s: each byte extends the deadline by its time. */
const LEAST_RATE = 16.384;

class TimedOut extends Error {}

export interface LineOptions {
  /** The longest time of a request with its response, in milliseconds, plus the time of their bytes at the least rate. */
  timeout: number;
  token?: string;
  /** Called with every request. */
  show?: (request: SentRequest) => void;
}

export class Line {
  readonly #server: number;
  readonly #options: LineOptions;
  #abort = new AbortController();
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** Bytes read but not yet handed on. */
  #rest = new Uint8Array();
  /** Deadline of the response. */
  #deadline = 0;

  constructor(server: number, options: LineOptions) {
    this.#server = server;
    this.#options = options;
  }

  /** Sends a request and returns the head of the response; `undefined` if the line was closed in the meantime. */
  async send({ method, url, headers }: ToSend, body: Uint8Array): Promise<Came | undefined> {
    this.close();
    const abort = (this.#abort = new AbortController());
    const { token, show } = this.#options;
    const authorization: [string, string][] = token === undefined ? [] : [["authorization", `Bearer ${token}`]];
    show?.({ server: this.#server, method, url, body });
    try {
      const asked = fetch(url, {
        method,
        headers: [...headers, ...authorization],
        ...(method === "POST" && { body: body as BodyInit }),
        cache: "no-store",
        credentials: "omit",
        redirect: "manual",
        referrerPolicy: "no-referrer",
        signal: abort.signal,
      });
      const upload = this.#options.timeout + body.length / LEAST_RATE;
      this.#deadline = performance.now() + upload;
      const response = await this.#timed(asked, upload);
      abort.signal.throwIfAborted();
      this.#reader = response.body?.getReader();
      // Redirections are not followed, and browsers hide their status and target.
      const status = response.type === "opaqueredirect" ? 307 : response.status;
      const [etag, retryAfter] = [response.headers.get("etag"), response.headers.get("retry-after")];
      return { head: { received: "head", server: this.#server, status, etag, retryAfter } };
    } catch (error) {
      return this.#failed(abort, error, "unreachable");
    }
  }

  /** Returns the next piece of the response, empty at its end; `undefined` if the line was closed in the meantime. */
  async read(): Promise<Came | undefined> {
    const abort = this.#abort;
    try {
      while (this.#rest.length === 0 && this.#reader) {
        const left = this.#deadline - performance.now();
        const { done, value } = await this.#timed(this.#reader.read(), Math.min(left, this.#options.timeout));
        abort.signal.throwIfAborted();
        this.#deadline += (value?.length ?? 0) / LEAST_RATE;
        if (done) this.#reader = undefined;
        else this.#rest = value as Uint8Array<ArrayBuffer>;
      }
    } catch (error) {
      return this.#failed(abort, error, "broken");
    }
    const body = this.#rest.subarray(0, PIECE_BYTES);
    this.#rest = this.#rest.subarray(PIECE_BYTES);
    return { head: { received: "piece", server: this.#server }, body };
  }

  /** Cancels the request in progress. */
  close(): void {
    this.#abort.abort();
    this.#reader = undefined;
    this.#rest = new Uint8Array();
  }

  #timed<T>(awaited: Promise<T>, ms: number): Promise<T> {
    return within(ms, awaited, () => new TimedOut());
  }

  #failed(abort: AbortController, error: unknown, otherwise: Kind): Came | undefined {
    // After a close nobody waits for this result, and another request may have started.
    if (abort.signal.aborted) return undefined;
    // Cancels the request, which lost the race against the timeout or failed.
    this.close();
    const { kind, words } = why(error, otherwise);
    return { head: { received: "failed", server: this.#server, kind, words } };
  }
}

/** Classifies an error of fetch. Browsers have one error for all failures; Node has codes. */
function why(error: unknown, otherwise: Kind): { kind: Kind; words: string } {
  if (error instanceof TimedOut) return { kind: "timed-out", words: "the response did not come within the timeout" };
  const cause = (error as { cause?: { code?: unknown } } | undefined)?.cause;
  const code = typeof cause?.code === "string" ? cause.code : "";
  if (/^(ENOTFOUND|EAI_)/.test(code)) return { kind: "unknown-host", words: code };
  if (/^(ERR_TLS|ERR_SSL|CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO)/.test(code)) {
    return { kind: "untrusted", words: `${code}; have the certificate made anew, or its authority trusted (NODE_EXTRA_CA_CERTS)` };
  }
  if (/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)/.test(code)) return { kind: "broken", words: code };
  if (code !== "") return { kind: otherwise, words: code };
  const online = (globalThis.navigator as { onLine?: boolean } | undefined)?.onLine;
  if (online === false) return { kind: otherwise, words: "this device is offline" };
  return { kind: otherwise, words: cause ? "the request failed" : "the request failed, and the browser does not say why" };
}
