// Common exports of both entries of the package.

export { Client, type Domain, type DomainOptions, type Fetches, type Key, type LookUpOptions, type LookUps } from "./client.js";
export { type Circumstances, type ErrorCode, SpireaError } from "./errors.js";
export type { Description, FieldType, Storage, Timings } from "./messages.js";
export type { ConnectOptions, Progress, SentRequest } from "./options.js";
export { type FieldValue, type JsonValue, Value } from "./value.js";
