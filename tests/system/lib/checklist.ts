// A checklist whose rows are proved here or by other tests.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { TestContext } from "node:test";

export interface Row {
  readonly id: string;
  readonly what: string;
  /** Tests that prove it, as "<file>: <a piece of its title>"; a file of this folder by its name. */
  readonly by?: readonly string[];
  readonly run?: (t: TestContext) => unknown;
}

const root = new URL("../../../", import.meta.url).pathname;

/* `run` says which files it goes through; parts of it run side by side count as one. */
const present = new Set((process.env.SYSTEM_TESTS ?? "").split(/\s+/));

/** Finds the test that is named, or says why it does not count in this run. */
export function lookUp(by: string): string | undefined {
  const at = by.indexOf(": ");
  const [file, title] = [by.slice(0, at), by.slice(at + 2)];
  const isSystem = !file.includes("/");
  const path = isSystem ? `tests/system/${file}.test.ts` : file;
  assert.ok(readFileSync(`${root}${path}`, "utf8").includes(title), `${path} has no "${title}"`);
  return isSystem && !present.has(file) ? `${file} is not part of this run` : undefined;
}

export function declare({ id, what, by = [], run }: Row): void {
  test(`${id}: ${what}`, async (t) => {
    assert.ok(run !== undefined || by.length > 0, "nothing proves it");
    const missing = by.map(lookUp).find((reason) => reason !== undefined);
    await run?.(t);
    if (missing !== undefined) t.skip(missing);
  });
}

/** "A1" to "A6" and so on, from { A: 6 }. */
export const idsOf = (counts: Record<string, number>): string[] =>
  Object.entries(counts).flatMap(([letter, n]) =>
    Array.from({ length: n }, (_, at) => `${letter}${at + 1}`),
  );
