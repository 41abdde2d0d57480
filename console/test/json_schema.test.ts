import assert from "node:assert/strict";
import { test } from "node:test";
import { Unread, check, initial, kindOf, plain, withAt } from "../src/ui/json_schema.ts";
import type { Schema } from "../src/ui/json_schema.ts";

const messages = (schema: Schema, value: unknown): string[] =>
  check(schema, schema, value).map(({ path, message }) => `${path.join(".")} ${message}`);

test("references and alternatives of null are seen through", () => {
  const root = { $defs: { "a/b": { type: "string" } } } as Schema;
  assert.deepEqual(plain({ $ref: "#/$defs/a~1b", title: "T" }, root), {
    type: "string",
    title: "T",
  });
  assert.equal(plain({ anyOf: [{ type: "null" }, { type: "integer" }] }, root).type, "integer");
  assert.equal(plain({ type: ["boolean", "null"] }, root).type, "boolean");
  assert.equal(kindOf(plain({ anyOf: [{ type: "string" }, { type: "number" }] }, root)), "json");
});

test("a reference to itself comes to an end", () => {
  const root = { $defs: { a: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" } as Schema;
  assert.equal(kindOf(plain(root, root)), "json");
});

test("every kind of value has its field", () => {
  const kinds: [Schema, string][] = [
    [{ type: "string" }, "text"],
    [{ type: "integer" }, "number"],
    [{ type: "boolean" }, "boolean"],
    [{ enum: ["a", 1] }, "choice"],
    [{ const: "a" }, "choice"],
    [{ type: "object", properties: {} }, "object"],
    [{ type: "object" }, "json"],
    [{ type: "array", items: { type: "string" } }, "list"],
    [{ type: "array", items: { type: "object" } }, "json"],
    [{ enum: [{ a: 1 }] }, "json"],
    [{}, "json"],
  ];
  for (const [schema, kind] of kinds) assert.equal(kindOf(schema), kind, JSON.stringify(schema));
});

test("a form begins with defaults, and with no where a box must be ticked", () => {
  const schema: Schema = {
    type: "object",
    required: ["agrees"],
    properties: {
      n: { type: "integer", default: 2 },
      agrees: { type: "boolean" },
      maybe: { type: "boolean" },
      inner: { type: "object", properties: { a: { const: "x" }, b: { type: "string" } } },
      empty: { type: "object", properties: { c: { type: "string" } } },
    },
  };
  assert.deepEqual(initial(schema, schema), { n: 2, agrees: false, inner: { a: "x" } });
});

test("what is wrong is told with its place", () => {
  const schema: Schema = {
    type: "object",
    required: ["name", "at"],
    properties: {
      name: { type: "string", minLength: 2, maxLength: 4, pattern: "^[a-z]+$" },
      at: { type: "object", required: ["city"], properties: { city: { type: "string" } } },
      n: { type: "integer", minimum: 1, exclusiveMaximum: 5, multipleOf: 2 },
      kind: { enum: ["a", "b"] },
      list: { type: "array", minItems: 2, items: { type: "string" } },
      extra: { type: "object" },
    },
  };
  const fine = { name: "abc", at: { city: "X" } };
  const cases: [object, string[]][] = [
    [fine, []],
    [{}, ["name is required", "at.city is required"]],
    [{ ...fine, name: "a" }, ["name must have at least 2 characters"]],
    [{ ...fine, name: "abcde" }, ["name must have at most 4 characters"]],
    [{ ...fine, name: "AB" }, ["name must match ^[a-z]+$"]],
    [{ ...fine, name: 1 }, ["name must be text"]],
    [{ ...fine, at: [] }, ["at must be an object"]],
    [{ ...fine, n: 0 }, ["n must be at least 1"]],
    [{ ...fine, n: 6 }, ["n must be less than 5"]],
    [{ ...fine, n: 3 }, ["n must be a multiple of 2"]],
    [{ ...fine, n: 2.5 }, ["n must be a whole number"]],
    [{ ...fine, kind: "c" }, ["kind must be one of a, b"]],
    [{ ...fine, list: ["a"] }, ["list needs at least 2"]],
    [{ ...fine, list: ["a", 1] }, ["list.1 must be text"]],
    [{ ...fine, extra: new Unread("{") }, ["extra is not JSON"]],
    [{ ...fine, n: null }, []],
  ];
  for (const [value, wrong] of cases)
    assert.deepEqual(messages(schema, value), wrong, JSON.stringify(value));
});

test("a pattern of another dialect is left to the task", () => {
  assert.deepEqual(messages({ type: "string", pattern: "(?i)a" }, "b"), []);
});

test("a schema that is part of itself has a form, too", () => {
  const tree: Schema = {
    type: "object",
    required: ["name", "next"],
    properties: { name: { type: "string", default: "x" }, next: { $ref: "#" } },
  };
  assert.match(JSON.stringify(initial(tree, tree)), /^\{"name":"x","next":\{"name":"x"/);
  assert.equal(messages(tree, {})[0], "name is required");
  assert.ok(messages(tree, { name: "a" }).length < 10);
});

test("a value is put at its path, and taken away when it is undefined", () => {
  assert.deepEqual(withAt({}, ["a", "b"], 1), { a: { b: 1 } });
  assert.deepEqual(withAt({ a: { b: 1, c: 2 } }, ["a", "b"], undefined), { a: { c: 2 } });
  assert.deepEqual(withAt({ a: new Unread("{") }, ["a", "b"], 1), { a: { b: 1 } });
});
