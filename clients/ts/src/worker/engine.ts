// The worker: executes the page's calls one after another.

import { SpireaError, closed, plain, stopped } from "../errors.js";
import type { Call, Found, Indices, Keys, Outcome, Reply, Wanted } from "../messages.js";
import type { Progress, SentRequest, Settings } from "../options.js";
import { indexBytes, joined } from "./bytes.js";
import { converse } from "./converse.js";
import { Forms, formsUrl } from "./forms.js";
import { type Found as Head, Next, type Outcome as Lengths } from "./heads.js";
import { Instance, checkEngine, moduleUrl, now, random } from "./instance.js";
import { Keeper } from "./keeper.js";
import { Line } from "./line.js";
import type { Store } from "./store.js";

/** Differences between browsers and Node. */
export interface Host {
  /** Loads a compiled module. */
  module(url: URL, signal: AbortSignal): Promise<WebAssembly.Module>;
  /** Returns a function that opens the persistent storage; `undefined` if there is none, or memory was requested. */
  place(settings: Settings): (() => Promise<Store>) | undefined;
  reply(reply: Reply): void;
}

/** Least time between two reports of progress, in milliseconds. */
const REPORT_EVERY = 50;

interface Client {
  instance: Instance;
  keeper: Keeper;
  lines: Line[];
}

export class Engine {
  readonly #host: Host;
  #client: Client | undefined;
  /** The rules for forms of keys, once they are loaded. */
  #forms: Forms | undefined;
  /** Cancels each running or waiting call. */
  readonly #aborts = new Map<number, AbortController>();
  /** The last call; the next one waits for it. */
  #last: Promise<void> = Promise.resolve();
  #reported = 0;

  constructor(host: Host) {
    this.#host = host;
  }

  call(call: Call): void {
    if (call.call === "abort") {
      this.#aborts.get(call.id)?.abort(new SpireaError("closed", "it was ended"));
      return;
    }
    const abort = new AbortController();
    this.#aborts.set(call.id, abort);
    if (call.call === "close") this.#aborts.forEach((other, id) => id !== call.id && other.abort(closed()));
    this.#last = this.#last.then(() => this.#answer(call, abort.signal));
  }

  async #answer(call: Exclude<Call, { call: "abort" }>, signal: AbortSignal): Promise<void> {
    const { id } = call;
    try {
      signal.throwIfAborted();
      const found = await this.#perform(call, signal);
      this.#tellStanding();
      this.#host.reply({ reply: "done", id, ...(found && { found }) });
    } catch (error) {
      this.#tellStanding();
      this.#host.reply({ reply: "failed", id, error: plain(error) });
    } finally {
      this.#aborts.delete(id);
    }
    // Stores keys after the reply, so that the page does not wait for it.
    if (call.call === "lookUp") await this.#keep();
  }

  async #perform(call: Exclude<Call, { call: "abort" }>, signal: AbortSignal): Promise<Found | undefined> {
    switch (call.call) {
      case "connect":
        await this.#connect(call.settings, signal);
        return undefined;
      case "lookUp":
        return this.#lookUp(call.wanted, call.fetch, signal);
      case "close":
        this.#client?.keeper.close();
        this.#client = undefined;
        return undefined;
    }
  }

  async #connect(settings: Settings, signal: AbortSignal): Promise<void> {
    const { timeout, token, shown, keep, keepKeys, cache, ...options } = settings;
    const progress = (phase: Progress["phase"], done: number, total: number) => this.#report({ phase, done, total });
    checkEngine();
    const made = (module: WebAssembly.Module) => Instance.of(module, { random, now, progress });
    const instance = await this.#loaded("the compiled client", moduleUrl(), made, signal);
    const place = this.#host.place(settings);
    const scope = [options.database, ...options.addresses.map((of) => of[0]).sort()].join(" ");
    const keeper = new Keeper(instance, scope, options.maxHintBytes);
    if (place) await keeper.open(place, keepKeys, token);
    const show = (request: SentRequest) => this.#host.reply({ reply: "request", request });
    const lineOptions = { timeout, ...(token !== undefined && { token }), ...(shown && { show }) };
    const lines = options.addresses.map((_, server) => new Line(server, lineOptions));
    const client = { instance, keeper, lines };
    try {
      await this.#converse(client, () => instance.connect(options), signal);
    } catch (error) {
      keeper.close();
      throw error;
    }
    // Discards the output. It is the description, which is read again later.
    instance.output();
    await keeper.store();
    keeper.settle();
    this.#client = client;
  }

  /**
   * Runs the conversation that `begin` starts. If the table's keys have a form and the rules for forms are not loaded, the
   * conversation ends before it asks the table: then loads the rules and runs it again.
   */
  async #converse({ instance, keeper, lines }: Client, begin: () => void, signal: AbortSignal): Promise<void> {
    const once = () => {
      begin();
      return converse(instance, lines, () => keeper.store(), signal);
    };
    if ((await once()) !== Next.Rules) return;
    instance.provideRules(await this.#rules(signal));
    if ((await once()) === Next.Rules) throw stopped();
  }

  /** Returns the rules for forms of keys; loads them once. */
  async #rules(signal: AbortSignal): Promise<Forms> {
    const made = (module: WebAssembly.Module) => Forms.of(module, random);
    return (this.#forms ??= await this.#loaded("the rules for forms of keys", formsUrl(), made, signal));
  }

  /** Loads a module and instantiates it. */
  async #loaded<T>(what: string, url: URL, made: (module: WebAssembly.Module) => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await made(await this.#host.module(url, signal));
    } catch {
      signal.throwIfAborted();
      const file = url.pathname.split("/").at(-1);
      const text =
        `${what} cannot be loaded: ${file} has to be served beside the scripts, and the page's policy has to allow them ` +
        "(connect-src 'self', script-src 'wasm-unsafe-eval')";
      throw new SpireaError("no-worker", text);
    }
  }

  async #lookUp(wanted: Wanted, fetch: boolean, signal: AbortSignal): Promise<Found> {
    if (!("domains" in wanted)) return this.#find(wanted, fetch, signal);
    const domains = (await this.#rules(signal)).domains(wanted.domains, wanted.count);
    const found = await this.#find({ keys: domains.flatMap(({ keys }) => keys) }, fetch, signal);
    return { ...found, domains: domains.map(({ names, unasked }) => ({ names, unasked })) };
  }

  async #find(wanted: Keys | Indices, fetch: boolean, signal: AbortSignal): Promise<Found> {
    if (!this.#client) throw closed();
    const { instance, keeper } = this.#client;
    await keeper.takeSecret();
    if (instance.describe().outdated) await keeper.recall();
    const begin = () => {
      if ("keys" in wanted) {
        const lengths = wanted.keys.map((key) => key.length);
        instance.lookUp({ wanted: "keys", lengths, fetch }, joined(wanted.keys));
      } else {
        instance.lookUp({ wanted: "indices", fetch }, indexBytes(wanted.indices));
      }
    };
    try {
      await this.#converse(this.#client, begin, signal);
    } finally {
      if ("keys" in wanted) wanted.keys.forEach((key) => key.fill(0));
    }
    const { head, body } = instance.output<Head>();
    await keeper.store();
    keeper.settle();
    const { values, versions, ...timings } = head;
    let start = 0;
    const outcome = (value: Lengths): Outcome => {
      if (typeof value === "string") return value;
      const field = (length: number) => {
        start += length;
        return body.slice(start - length, start);
      };
      return { value: value.value.map(field) };
    };
    return {
      outcomes: values.map(outcome),
      versions: versions.flatMap(([version, count]) => Array<string>(count).fill(version)),
      timings,
    };
  }

  async #keep(): Promise<void> {
    try {
      await this.#client?.keeper.keepKeys();
    } catch {
      // The instance has stopped, so there are no keys to store.
    }
    // The storage may have failed in the meantime.
    this.#tellStanding();
  }

  /** Reports the client's state, if there is a client. */
  #tellStanding(): void {
    if (!this.#client) return;
    const { instance, keeper } = this.#client;
    try {
      const standing = { description: instance.describe(), storage: keeper.storage };
      this.#host.reply({ reply: "standing", standing });
    } catch {
      // The instance has stopped. The call in which it stopped reports the error.
    }
  }

  #report(progress: Progress): void {
    const atAnEnd = progress.done === progress.total || progress.done === 0;
    if (!atAnEnd && now() - this.#reported < REPORT_EVERY) return;
    this.#reported = now();
    this.#host.reply({ reply: "progress", progress });
  }
}
