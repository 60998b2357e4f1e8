import { SpireaError } from "./errors.js";
import type { FieldType } from "./messages.js";

/**
 * A field as the value of its type: whole numbers that are no safe `number` are a `bigint`, moments in UTC a `Date`, bytes a
 * `Uint8Array`, and what is missing `null`. Decimal numbers, dates, times and UUIDs are their text.
 */
export type FieldValue = string | number | bigint | boolean | Date | Uint8Array | null | JsonValue;

/** What JSON has. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [name: string]: JsonValue };

/** A value of a table: its fields, in the order in which the table names them. */
export class Value {
  /** The names of the fields. */
  readonly names: readonly string[];
  /** Their bytes. */
  readonly fields: readonly Uint8Array[];
  /** The version of the database that answered: 64 hexadecimal digits. */
  readonly version: string;
  /** Their types; none if the table does not tell them. */
  readonly types: readonly FieldType[];

  constructor(
    names: readonly string[],
    fields: readonly Uint8Array[],
    version: string,
    types: readonly FieldType[] = [],
  ) {
    this.names = names;
    this.fields = fields;
    this.version = version;
    this.types = types;
  }

  /**
   * The bytes of a field; without a name, of the first.
   * @throws SpireaError if there is no such field.
   */
  bytes(name?: string): Uint8Array {
    return this.fields[this.#place(name)]!;
  }

  /**
   * The text of a field; without a name, of the first. What is no UTF-8 is replaced.
   * @throws SpireaError if there is no such field.
   */
  text(name?: string): string {
    return new TextDecoder().decode(this.bytes(name));
  }

  /**
   * A field as the value of its type; without a name, the first. Where the table tells no types, and for what is not of its
   * type, it is text, or the bytes that are none.
   * @throws SpireaError if there is no such field.
   */
  value(name?: string): FieldValue {
    const place = this.#place(name);
    const bytes = this.fields[place]!;
    const type = this.types[place];
    if (type === "bytes") return bytes;
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return bytes;
    }
    if (type === undefined || type === "text") return text;
    return text === "" ? null : read(type, text);
  }

  #place(name: string | undefined): number {
    const place = name === undefined ? 0 : this.names.indexOf(name);
    if (this.fields[place] === undefined) {
      throw new SpireaError("bad-request", `there is no such field; there are ${this.names.join(", ")}`);
    }
    return place;
  }
}

/** The value of a text; the text if it is not of the type. */
function read(type: FieldType, text: string): FieldValue {
  switch (type) {
    case "integer": {
      if (!/^-?\d+$/.test(text)) return text;
      return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text);
    }
    case "number":
      return text === "NaN" || !Number.isNaN(Number(text)) ? Number(text) : text;
    case "boolean":
      return text === "true" ? true : text === "false" ? false : text;
    case "instant": {
      const moment = new Date(text);
      return Number.isNaN(moment.getTime()) ? text : moment;
    }
    case "json":
      try {
        return JSON.parse(text) as JsonValue;
      } catch {
        return text;
      }
    default:
      return text;
  }
}
