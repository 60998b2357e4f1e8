// A proxy between a client and its server. It records requests, and changes replies as a test demands.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import type { Served } from "./servers.js";

/** Headers by which a server allows pages to read a response. */
export const CORS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "accept-ranges,content-range,etag,retry-after",
};

/** A request that the proxy saw. */
export class Seen {
  /** The reply's status. */
  status = 0;
  answer: Buffer = Buffer.alloc(0);

  constructor(
    readonly method: string,
    readonly path: string,
    readonly body: Buffer,
  ) {}

  /** The last part of the path, which is the kind of request to a database. */
  get what(): string {
    return new URL(this.path, "http://server").pathname.split("/").at(-1)!;
  }
}

/** A response before it is sent. */
export interface Reply {
  status: number;
  headers: http.OutgoingHttpHeaders;
  body: Buffer;
  /** The stated length. Default: the body's. */
  length?: number;
  /** Bytes sent at a time. Default: 1 MiB. */
  pieces?: number;
  /** Milliseconds to wait after each piece. */
  pause?: number;
  /** Bytes that are sent repeatedly after the body. */
  endless?: Buffer;
}

/** Decides the answer to a request: a reply, with or without asking the server; or undefined, which closes the connection. */
export type Fate = (seen: Seen, ask: () => Promise<Reply>) => Promise<Reply | undefined> | Reply | undefined;

export const passedOn: Fate = (_, ask) => ask();

/** Changes the server's replies to requests of a kind. */
export function on(what: string, change: (reply: Reply) => Reply | undefined): Fate {
  return async (seen, ask) => (seen.what === what ? change(await ask()) : ask());
}

/** Replies in the server's place to requests of a kind. */
export function instead(what: string, reply: Reply): Fate {
  return (seen, ask) => (seen.what === what ? reply : ask());
}

export interface Pem {
  cert: string;
  key: string;
}

/** Least length of bodies that may be received slowly. */
const LONG = 1 << 16;
const CONNECTION_HEADERS = ["transfer-encoding", "connection", "content-length", "keep-alive"];

/** A proxy of a server. Without a server, its fate makes all replies. */
export class Middle implements AsyncDisposable {
  fate: Fate = passedOn;
  seen: Seen[] = [];
  /** Milliseconds to receive a long body. */
  upload = 0;
  readonly #came = new EventEmitter();
  readonly #stopping = new AbortController();

  private constructor(
    public upstream: string | undefined,
    private readonly server: http.Server,
    readonly url: string,
  ) {
    server.on("request", (request: http.IncomingMessage, response: http.ServerResponse) => {
      // If the client or the server has gone, closes the connection.
      this.#relay(request, response).catch(() => request.socket.destroy());
    });
  }

  /** Starts a proxy of `upstream`. With `pem` it speaks https. */
  static async before(upstream: string | undefined, pem?: Pem): Promise<Middle> {
    const server = pem === undefined ? http.createServer() : https.createServer(pem);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    return new Middle(upstream, server, `http${pem === undefined ? "" : "s"}://127.0.0.1:${port}`);
  }

  /** Sends nothing until the proxy stops. */
  readonly silence: Fate = async () => {
    await this.#wait(2 ** 31 - 1);
    return undefined;
  };

  asked(what: string): Seen[] {
    return this.seen.filter((seen) => seen.what === what);
  }

  /** Waits until `count` requests of a kind have arrived. */
  async waitFor(what: string, count = 1): Promise<void> {
    const late = AbortSignal.timeout(60_000);
    while (this.asked(what).length < count) {
      await once(this.#came, "request", { signal: late }).catch(() => {
        const paths = this.seen.map(({ path }) => path);
        assert.fail(`${count} requests for ${what} were expected within a minute; these came: ${paths.join(" ")}`);
      });
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.server.close();
    this.server.closeAllConnections();
    await once(this.server, "close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #relay(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method = "GET", url: path = "/" } = request;
    const seen = new Seen(method, path, await this.#taken(request));
    const ask = () => this.#ask(request, seen);
    const preflight = method === "OPTIONS";
    if (!preflight) {
      this.seen.push(seen);
      this.#came.emit("request");
    }
    const reply = preflight && this.upstream !== undefined ? await ask() : await this.fate(seen, ask);
    if (reply === undefined) {
      request.socket.destroy();
      return;
    }
    [seen.status, seen.answer] = [reply.status, reply.body];
    await this.#send(response, reply);
  }

  /** Receives a request's body, slowly if it is long. */
  async #taken(request: http.IncomingMessage): Promise<Buffer> {
    const length = Number(request.headers["content-length"] ?? 0);
    const pieces: Buffer[] = [];
    for await (const piece of request as AsyncIterable<Buffer>) {
      pieces.push(piece);
      if (length >= LONG && this.upload > 0) await this.#wait((this.upload * piece.length) / length);
    }
    return Buffer.concat(pieces);
  }

  /** Asks the server, and returns its reply. */
  async #ask(request: http.IncomingMessage, { method, path, body }: Seen): Promise<Reply> {
    assert(this.upstream !== undefined);
    const headers = Object.entries(request.headers).filter(([name]) => !["host", "connection"].includes(name));
    const sent = http.request(new URL(path, this.upstream), { method, headers: Object.fromEntries(headers), agent: false });
    sent.end(body);
    const [answer] = (await once(sent, "response")) as [http.IncomingMessage];
    const pieces: Buffer[] = [];
    for await (const piece of answer as AsyncIterable<Buffer>) pieces.push(piece);
    const kept = Object.entries(answer.headers).filter(([name]) => !CONNECTION_HEADERS.includes(name));
    return { status: answer.statusCode!, headers: Object.fromEntries(kept), body: Buffer.concat(pieces) };
  }

  async #send(response: http.ServerResponse, reply: Reply): Promise<void> {
    const { status, headers, body, length = body.length, pieces = 1 << 20, pause = 0, endless } = reply;
    // Without a length, the end of the connection is the end of the body.
    response.useChunkedEncodingByDefault = false;
    response.writeHead(status, { ...headers, ...(endless ? { connection: "close" } : { "content-length": length }) });
    response.flushHeaders();
    const write = async (bytes: Buffer) => {
      if (!response.write(bytes)) await once(response, "drain", { signal: this.#stopping.signal });
    };
    response.on("close", () => response.emit("drain"));
    for (let start = 0; start < body.length; start += pieces) {
      await write(body.subarray(start, start + pieces));
      if (pause > 0) await this.#wait(pause);
    }
    while (endless && !response.destroyed && !this.#stopping.signal.aborted) await write(endless);
    if (length === body.length && !endless) response.end();
    else response.socket?.end();
  }

  /** Waits `ms` milliseconds, or until the proxy stops. */
  async #wait(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }
}

/** Starts a proxy of each server. */
export async function proxies(servers: readonly Served[]): Promise<Middle[] & AsyncDisposable> {
  const all = await Promise.all(servers.map(({ url }) => Middle.before(url)));
  const stop = async () => void (await Promise.all(all.map((one) => one.stop())));
  return Object.assign(all, { [Symbol.asyncDispose]: stop });
}
