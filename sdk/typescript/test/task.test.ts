import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  defineConfig,
  image,
  logger,
  PayloadSchemaValidationError,
  queue,
  sandbox,
  task,
} from "@helmr/sdk";
import type { SchemaIssue, StandardSchemaV1 } from "@helmr/sdk";

const sbx = sandbox("s").image(image("i").from("node:24")).workspace("/app");
const minimal = { id: "t", sandbox: sbx, run: async () => 1 };
const made = (more: object): Record<string, any> => {
  const built = task({ ...minimal, ...more } as never) as object;
  return (built as Record<symbol, Record<string, any>>)[Symbol.for("helmr.sdk.Task")] as Record<
    string,
    any
  >;
};

const refusals: [string, object, RegExp][] = [
  ["an unknown key", { schedule: "* * * * *" }, /^task\.schedule is unknown/],
  ["streams", { streams: [] }, /^task\.streams is unknown/],
  ["an id with a space", { id: "a b" }, /^task id must be/],
  ["no run", { run: undefined }, /task t: run must be a function/],
  ["no sandbox", { sandbox: undefined }, /task t: sandbox is missing/],
  ["a sandbox that is none", { sandbox: {} }, /task t: sandbox must be made by sandbox\(\)/],
  ["a sandbox without image", { sandbox: sandbox("bare") }, /task t: sandbox bare has no image/],
  ["a duration of 4 s", { maxDuration: 4 }, /task t: maxDuration must be from 5s to 86400s/],
  ["a duration over a day", { maxDuration: "24h1ms" }, /maxDuration must be from/],
  [
    "a duration without unit after one",
    { maxDuration: "1h30" },
    /maxDuration must be a duration such as/,
  ],
  ["a negative duration", { maxDuration: "-5s" }, /maxDuration must be a duration/],
  ["a duration that is no number", { maxDuration: NaN }, /maxDuration must be from/],
  ["an empty duration", { ttl: {} }, /ttl must have at least one member/],
  ["a duration in weeks", { ttl: { weeks: 1 } }, /ttl\.weeks is unknown/],
  ["a ttl of nothing", { ttl: 0 }, /ttl must be from 1ms/],
  ["a ttl over a year", { ttl: "366d" }, /ttl must be from/],
  ["a payload that is no schema", { payload: {} }, /task t: payload must be a Standard Schema/],
  [
    "a schema of another version",
    { payload: { "~standard": { version: 2, validate() {} } } },
    /payload must be/,
  ],
  ["a queue with a space", { queue: "a b" }, /task t: queue must be/],
  [
    "no retry with more",
    { retry: { enabled: false, maxAttempts: 2 } },
    /retry must carry nothing else/,
  ],
  [
    "11 attempts",
    { retry: { maxAttempts: 11 } },
    /retry\.maxAttempts must be a whole number from 1 to 10/,
  ],
  [
    "a back-off factor of 0",
    { retry: { backoff: { factor: 0 } } },
    /retry\.backoff\.factor must be over 0/,
  ],
  [
    "a least delay over the most",
    { retry: { backoff: { minMs: 2, maxMs: 1 } } },
    /minMs must not be over maxMs/,
  ],
  ["half a jitter", { retry: { backoff: { jitter: "half" } } }, /jitter must be "none" or "full"/],
  ["secrets that are a list", { secrets: ["A"] }, /^secrets must be an object/],
  [
    "a secret with two places",
    { secrets: { A: { env: "A", file: "a" } } },
    /secrets\.A must have exactly one of/,
  ],
  ["a secret without a place", { secrets: { A: {} } }, /secrets\.A must have exactly one of/],
  [
    "a secret with an unknown key",
    { secrets: { A: { env: "A", default: "x" } } },
    /secrets\.A\.default is unknown/,
  ],
  ["a secret in LD_PRELOAD", { secrets: { A: { env: "LD_PRELOAD" } } }, /secrets\.A\.env/],
  [
    "a mode on a variable",
    { secrets: { A: { env: "A", mode: "0600" } } },
    /must not have mode or owner/,
  ],
  ["a secret named NUL", { secrets: { NUL: { env: "A" } } }, /device name/],
  ["a secret at /", { secrets: { A: { file: "/" } } }, /secrets\.A\.file must not be/],
  ["a secret at .", { secrets: { A: { file: "." } } }, /secrets\.A\.file must not be/],
  ["a secret that climbs", { secrets: { A: { file: "../a" } } }, /must not contain "\.\."/],
  ["a secret with space around its path", { secrets: { A: { file: " a" } } }, /white space/],
  ["a secret below /proc", { secrets: { A: { file: "/proc/a" } } }, /\/proc is reserved/],
  [
    "a secret directory over the workspace",
    { secrets: { A: { dir: "/app/" } } },
    /must not be or hold the workspace mount \/app/,
  ],
  [
    "a mode of 1777",
    { secrets: { A: { file: "a", mode: "1777" } } },
    /secrets\.A\.mode must be octal/,
  ],
  [
    "a mode that is a number",
    { secrets: { A: { file: "a", mode: 0o600 } } },
    /secrets\.A\.mode must be a string/,
  ],
  ["an owner with a space", { secrets: { A: { file: "a", owner: "a b" } } }, /secrets\.A\.owner/],
  [
    "two secrets in one variable",
    { secrets: { A: { env: "X" }, B: { env: "X" } } },
    /secrets\.B must not share X with A/,
  ],
  [
    "a file and a directory at one path",
    { secrets: { A: { file: "/app/x" }, B: { dir: "x" } } },
    /secrets\.B must not share x with A/,
  ],
  [
    "a secret below another one",
    { secrets: { A: { dir: "/run/x" }, B: { file: "/run/x/y" } } },
    /secrets\.B must not be above or below A/,
  ],
  [
    "two modes for one directory",
    { secrets: { A: { dir: "/run/x" }, B: { dir: "/run/x", mode: "0750" } } },
    /secrets\.B must have the mode and owner of A/,
  ],
  [
    "65 secrets",
    {
      secrets: Object.fromEntries(
        Array.from({ length: 65 }, (_, i) => [`S${i}`, { env: `S${i}` }]),
      ),
    },
    /must be at most 64/,
  ],
  [
    "a broker without rules",
    { secrets: { A: { env: "A", broker: [] } } },
    /secrets\.A\.broker must have 1 to 16/,
  ],
  [
    "a broker for a URL",
    { secrets: { A: { env: "A", broker: [{ host: "https://x" }] } } },
    /broker\[0\]\.host must be a host name/,
  ],
];

for (const [what, more, says] of refusals)
  test(`a task with ${what} is refused`, () => {
    assert.throws(
      () => made(more),
      (error: unknown) => error instanceof TypeError && says.test(error.message),
    );
  });

const durations: [unknown, number][] = [
  [900, 900],
  ["90s", 90],
  ["1h30m", 5400],
  ["1.5h", 5400],
  ["60", 60],
  ["5001ms", 6],
  [{ minutes: 1, seconds: 30 }, 90],
  [5.1, 6],
  ["1d", 86_400],
];

for (const [given, seconds] of durations)
  test(`a max duration of ${JSON.stringify(given)} is ${seconds} s`, () => {
    assert.equal(made({ maxDuration: given }).maxDurationSeconds, seconds);
  });

test("a task has the defaults of the documents", () => {
  const { maxDurationSeconds, queue: name, ttl, retry, secrets } = made({});
  assert.deepEqual(
    [maxDurationSeconds, name, ttl, retry, secrets],
    [900, undefined, undefined, undefined, []],
  );
});

test("whether a payload is accepted follows from schema and parameters", () => {
  assert.equal(made({ run: async () => 1 }).acceptsPayload, false);
  assert.equal(made({ run: async (_ctx: unknown) => 1 }).acceptsPayload, false);
  assert.equal(made({ run: async (_event: unknown, _ctx: unknown) => 1 }).acceptsPayload, true);
  assert.equal(
    made({ run: async (_event: unknown, ..._rest: unknown[]) => 1 }).acceptsPayload,
    false,
  );
  assert.equal(made({ payload: schema, run: async () => 1 }).acceptsPayload, true);
});

test("a queue is given by definition or by name", () => {
  assert.equal(made({ queue: queue({ name: "q/1" }) }).queue, "q/1");
  assert.equal(made({ queue: "q/1" }).queue, "q/1");
});

test("secret placements are normalised", () => {
  const secrets = {
    A: { file: "/run/secrets//config.json", mode: "0o640" },
    B: { dir: "conf/", owner: "1:2" },
  };
  assert.deepEqual(made({ secrets }).secrets, [
    { name: "A", placement: "file", target: "/run/secrets/config.json", mode: "0640" },
    { name: "B", placement: "dir", target: "conf", owner: "1:2" },
  ]);
});

const schema: StandardSchemaV1<{ n: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => ({ value: value as { n: number } }),
  },
};

test("an error of a schema shows five issues and counts the rest", () => {
  const issues: SchemaIssue[] = Array.from({ length: 7 }, (_, i) => ({
    message: "bad",
    path: ["a", { key: i }],
  }));
  const error = new PayloadSchemaValidationError("the payload", issues);
  assert.equal(
    error.message,
    "the payload: a.0: bad; a.1: bad; a.2: bad; a.3: bad; a.4: bad (+2 more)",
  );
  assert.equal(
    new PayloadSchemaValidationError("it", [{ message: "must be an object" }]).message,
    "it: must be an object",
  );
});

test("an error is recognised by its brand, also of another copy of the package", () => {
  const foreign = Object.defineProperty(
    new Error("x"),
    Symbol.for("helmr.sdk.PayloadSchemaValidationError"),
    { value: true },
  );
  assert.ok(foreign instanceof PayloadSchemaValidationError);
  assert.ok(!(new Error("x") instanceof PayloadSchemaValidationError));
});

test("the logger says that it needs a run", () => {
  assert.throws(() => logger.info("x"), /logger\.info can only be used inside a run/);
});

const configs: [string, unknown, RegExp][] = [
  ["an unknown key", { project: "p", dirs: ["a"], dir: "a" }, /config\.dir is unknown/],
  ["no project", { dirs: ["a"] }, /config\.project must be a string/],
  ["a project with capitals", { project: "My", dirs: ["a"] }, /config\.project must be 1 to 63/],
  ["no directory", { project: "p", dirs: [] }, /config\.dirs must name at least one/],
  [
    "a directory above the project",
    { project: "p", dirs: ["../a"] },
    /config\.dirs\[0\] must not contain/,
  ],
  [
    "an empty pattern",
    { project: "p", dirs: ["a"], ignorePatterns: [""] },
    /config\.ignorePatterns\[0\]/,
  ],
];

for (const [what, config, says] of configs)
  test(`a config with ${what} is refused`, () => {
    assert.throws(
      () => defineConfig(config as never),
      (error: unknown) => error instanceof TypeError && says.test(error.message),
    );
  });

test("a config keeps normal paths and the default patterns", () => {
  const config = defineConfig({ project: "p", dirs: ["./tasks/", "."] });
  assert.deepEqual(
    [config.dirs, config.ignorePatterns],
    [
      ["tasks", "."],
      ["**/*.test.*", "**/*.spec.*", "**/_*.*"],
    ],
  );
});

test("the version that is sent is the package's", async () => {
  const { version } = JSON.parse(
    readFileSync(new URL("../package.json", import.meta.url), "utf8"),
  ) as { version: string };
  const source = readFileSync(new URL("../src/version.ts", import.meta.url), "utf8");
  assert.match(source, new RegExp(`version = "${version}"`));
});
