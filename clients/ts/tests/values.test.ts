// Fields as values of their types.

import { expect, test } from "vitest";

import { type FieldType, Value } from "../src/index.js";

const UTF_8 = new TextEncoder();

function read(type: FieldType | undefined, field: string | Uint8Array): unknown {
  const bytes = typeof field === "string" ? UTF_8.encode(field) : field;
  return new Value(["field"], [bytes], "00".repeat(32), type === undefined ? [] : [type]).value();
}

const CASES: [FieldType | undefined, string, unknown][] = [
  [undefined, "5", "5"],
  [undefined, "", ""],
  ["text", "5", "5"],
  ["text", "\ufeffa", "\ufeffa"],
  ["integer", "-128", -128],
  ["integer", "9007199254740993", 9007199254740993n],
  ["integer", "", null],
  ["number", "1e+21", 1e21],
  ["number", "NaN", Number.NaN],
  ["number", "-Infinity", Number.NEGATIVE_INFINITY],
  ["decimal", "12.50", "12.50"],
  ["boolean", "false", false],
  ["date", "2024-05-01", "2024-05-01"],
  ["instant", "2024-05-01T10:34:56.5Z", new Date("2024-05-01T10:34:56.500Z")],
  ["datetime", "2024-05-01T10:34:56", "2024-05-01T10:34:56"],
  ["json", '{"x":[1,null]}', { x: [1, null] }],
  // A malicious server may send texts that are not of the type.
  ["integer", "five", "five"],
  ["number", "five", "five"],
  ["boolean", "yes", "yes"],
  ["instant", "soon", "soon"],
  ["json", "{", "{"],
];

test("fields are the values of their types", () => {
  for (const [type, text, expected] of CASES) expect(read(type, text), `${type} ${text}`).toEqual(expected);
  const bytes = new Uint8Array([0xff, 1]);
  for (const type of [undefined, "text", "bytes", "integer"] as const) expect(read(type, bytes)).toEqual(bytes);
  expect(read("bytes", "text")).toEqual(UTF_8.encode("text"));
  const value = new Value(["a", "b"], [UTF_8.encode("1"), UTF_8.encode("2")], "", ["integer", "text"]);
  expect([value.value("a"), value.value("b")]).toEqual([1, "2"]);
  expect(() => value.value("c")).toThrow("there are a, b");
});
