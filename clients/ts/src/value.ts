import { SpireaError } from "./errors.js";

/** A value of a table: its fields, in the order in which the table names them. */
export class Value {
  /** The names of the fields. */
  readonly names: readonly string[];
  /** Their bytes. */
  readonly fields: readonly Uint8Array[];
  /** The version of the database that answered: 64 hexadecimal digits. */
  readonly version: string;

  constructor(names: readonly string[], fields: readonly Uint8Array[], version: string) {
    this.names = names;
    this.fields = fields;
    this.version = version;
  }

  /**
   * The bytes of a field; without a name, of the first.
   * @throws SpireaError if there is no such field.
   */
  bytes(name?: string): Uint8Array {
    const field = this.fields[name === undefined ? 0 : this.names.indexOf(name)];
    if (field === undefined) {
      throw new SpireaError("bad-request", `there is no such field; there are ${this.names.join(", ")}`);
    }
    return field;
  }

  /**
   * The text of a field; without a name, of the first. What is no UTF-8 is replaced.
   * @throws SpireaError if there is no such field.
   */
  text(name?: string): string {
    return new TextDecoder().decode(this.bytes(name));
  }
}
