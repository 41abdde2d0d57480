// What a run was doing when, from its events.
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { attemptsOf, spansOf, waitsOf } from "../src/ui/life.ts";
import type { RunEvent } from "../src/api/types.ts";

type Row = [second: number, kind: string, attributes?: object, attempt?: number];

const begin = Date.parse("2026-01-01T00:00:00Z");
const at = (second: number): number => begin + second * 1000;
const events = (rows: Row[]): RunEvent[] =>
  rows.map(([second, kind, attributes = {}, attempt], i) => ({
    id: String(i),
    cursor: String(i),
    kind,
    category: "lifecycle",
    severity: "info",
    attempt_number: attempt ?? null,
    attributes: attributes as Record<string, unknown>,
    at: new Date(at(second)).toISOString(),
  }));

const parkedOnce = events([
  [0, "run.created"],
  [1, "run.lease_assigned", { lease_id: "a" }, 1],
  [2, "run.lease_started", { lease_id: "a", engine: "gvisor", grade: "user-kernel" }, 1],
  [3, "run_wait.created", { wait_id: "w", kind: "token", metadata: { prompt: "Go on?" } }, 1],
  [3, "run.waiting", { wait_id: "w" }, 1],
  [5, "run.lease_released", { lease_id: "a", outcome: "checkpointed" }, 1],
  [5, "checkpoint.ready", { wait_id: "w" }, 1],
  [9, "run_wait.completed", { wait_id: "w" }, 1],
  [9, "run.wait_resume_queued", { wait_id: "w" }, 1],
  [10, "run.lease_assigned", { lease_id: "b" }, 1],
  [11, "run.lease_started", { lease_id: "b" }, 1],
  [12, "run.resumed", { wait_id: "w" }, 1],
  [14, "run.completed", {}, 1],
]);

suite("the life of a run", () => {
  test("is queued, starting, running, waiting, parked, resuming and running again", () => {
    assert.deepEqual(
      spansOf(parkedOnce, at(99)).map(({ kind, from, to }) => [kind, (to - from) / 1000]),
      [
        ["queued", 1],
        ["starting", 1],
        ["running", 1],
        ["waiting", 2],
        ["parked", 4],
        ["resuming", 3],
        ["running", 2],
      ],
    );
  });

  test("goes on until now while it is not over", () => {
    const last = spansOf(parkedOnce.slice(0, 7), at(20)).at(-1);
    assert.deepEqual(last, { kind: "parked", from: at(5), to: at(20) });
  });

  test("has waits with the time they were parked", () => {
    const [wait] = waitsOf(parkedOnce, spansOf(parkedOnce, at(14)), at(14));
    assert.deepEqual(wait, {
      id: "w",
      words: "Go on?",
      from: at(3),
      to: at(9),
      parkedMs: 4000,
      isOpen: false,
    });
  });

  test("has attempts, each with the leases it had and what came of it", () => {
    const retried = events([
      [0, "run.created"],
      [1, "run.lease_assigned", { lease_id: "a" }, 1],
      [2, "run.lease_started", { lease_id: "a", worker_id: "w1", start_ms: 7 }, 1],
      [3, "run.lease_released", { lease_id: "a", outcome: "failed" }, 1],
      [3, "run.retry_scheduled", { delay_ms: 200 }],
      [4, "run.lease_started", { lease_id: "b", worker_id: "w2" }, 2],
      [5, "run.execution_lost", { lease_id: "b" }, 2],
      [6, "run.lease_started", { lease_id: "c", worker_id: "w3" }, 2],
    ]);
    const [first, second] = attemptsOf(retried);
    assert.deepEqual([first?.outcome, first?.retryAfterMs], ["failed", 200]);
    assert.deepEqual(
      first?.leases.map(({ worker, ms, outcome }) => [worker, ms, outcome]),
      [["w1", 7, "failed"]],
    );
    assert.equal(second?.outcome, "running");
    assert.deepEqual(
      second?.leases.map(({ id, outcome }) => [id, outcome]),
      [
        ["b", "worker lost"],
        ["c", ""],
      ],
    );
  });
});
