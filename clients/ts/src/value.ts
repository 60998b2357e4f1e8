import { SpireaError } from "./errors.js";
import type { FieldType } from "./messages.js";

/**
 * A field as a value of its type. Integers outside the safe range of `number` are a `bigint`, instants a `Date`, bytes a
 * `Uint8Array`, and missing fields `null`. Decimal numbers, dates, times and UUIDs are text.
 */
export type FieldValue = string | number | bigint | boolean | Date | Uint8Array | null | JsonValue;

/** A JSON value. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [name: string]: JsonValue };

/** A value of a table: its fields, in the table's order. */
export class Value {
  /** Names of the fields. */
  readonly names: readonly string[];
  /** Bytes of the fields. */
  readonly fields: readonly Uint8Array[];
  /** The version of the database that answered: 64 hexadecimal digits. */
  readonly version: string;
  /** Types of the fields; empty if the table does not have them. */
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
   * Returns the bytes of a field; without a name, of the first field.
   * @throws SpireaError if there is no such field.
   */
  bytes(name?: string): Uint8Array {
    return this.fields[this.#place(name)]!;
  }

  /**
   * Returns the text of a field; without a name, of the first field. Bytes that are not UTF-8 are replaced.
   * @throws SpireaError if there is no such field.
   */
  text(name?: string): string {
    return new TextDecoder().decode(this.bytes(name));
  }

  /**
   * Returns a field as a value of its type; without a name, the first field. If the table has no types, or the field's text is
   * not of its type, the result is text, or bytes if they are not UTF-8.
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

/** Converts a text to a value of a type. Returns the text if it is not of the type. */
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
