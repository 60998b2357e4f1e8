// A page with its own origin, and with the package as npm installed it.

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";

const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};

export class Site implements AsyncDisposable {
  /** Changes to files of the package, by their path in `dist`. */
  readonly changes = new Map<string, (text: string) => string>();

  private constructor(
    private readonly server: http.Server,
    readonly url: string,
  ) {}

  /** Serves a folder, with an optional Content-Security-Policy for all its files. */
  static async of(folder: string, policy?: string): Promise<Site> {
    const server = http.createServer((request, response) => {
      const path = new URL(request.url!, "http://site").pathname;
      const file = join(folder, path === "/" ? "index.html" : path);
      const change = site.changes.get(path.split("/dist/").at(-1)!);
      readFile(file).then(
        (content) => {
          const type = TYPES[extname(file)] ?? "application/octet-stream";
          const headers = { "content-type": type, "cache-control": "no-store" };
          response.writeHead(200, { ...headers, ...(policy !== undefined && { "content-security-policy": policy }) });
          response.end(change ? change(content.toString()) : content);
        },
        () => response.writeHead(404).end(),
      );
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const site = new Site(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    return site;
  }

  async stop(): Promise<void> {
    this.server.close();
    this.server.closeAllConnections();
    await once(this.server, "close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
