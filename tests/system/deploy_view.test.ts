import assert from "node:assert/strict";
import { test } from "node:test";
import { binary, helmr } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";
import { onTerminal } from "./lib/terminal.ts";

const run = (script: string) => `.run(["sh", "-c", ${JSON.stringify(script)}])`;

/** One task each for images of the ids, whose steps are given. */
const tasks = (images: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(images).map(([id, steps]) => [
      `tasks/${id}.ts`,
      `import { image, sandbox, task } from "@helmr/sdk";
export const ${id} = task({
  id: "${id}",
  sandbox: sandbox("${id}-box").image(image("${id}").from("node:24-bookworm-slim")${steps}),
  run: async () => "fine",
});
`,
    ]),
  );

const wide = { columns: 100, rows: 40 };
const deployed = (path: string) => [binary, "deploy", path, "--skip-promotion", "--no-cache"];
const matching = (lines: readonly string[], what: RegExp) => lines.filter((line) => what.test(line));

test("a terminal shows every step, the running ones with what they say", async (t) => {
  const talk = (word: string) => run(`printf '\\033[31m${word}\\033[0m\\033[2J\\n'; sleep 2`);
  const path = project(t, {
    "tasks/a.ts": null,
    ...tasks({ first: talk("one says hello"), second: talk("two says hello") }),
  });
  const { code, lines, screens, cursorIsShown } = await onTerminal(deployed(path), wide);
  assert.equal(code, 0, lines.join("\n"));
  assert.ok(cursorIsShown);
  assert.ok(screens.length > 10, `${screens.length} pictures`);
  for (const word of ["one says hello", "two says hello"])
    assert.ok(screens.some((screen) => matching(screen, RegExp(`^ {4}${word}$`)).length === 1));
  assert.ok(
    screens.some(
      (screen) =>
        matching(screen, /^[^✓] first 2\/2 RUN .* \d\.\d s$/).length === 1 &&
        matching(screen, /^[^✓] second 2\/2 RUN .* \d\.\d s$/).length === 1,
    ),
    "two images are built at once",
  );
  for (const step of ["unpack", "evaluate", "image", "load", "seal"])
    assert.equal(matching(lines, RegExp(`^✓ ${step} +\\d+\\.\\d s$`)).length, 1, step);
  for (const image of ["first", "second"])
    assert.equal(matching(lines, RegExp(`^✓ ${image} 2/2 RUN sh -c .* \\d+\\.\\d s$`)).length, 1);
  assert.equal(matching(lines, /^ {4}/).length, 0);
  assert.match(lines.at(-2) as string, /^\d{8}\.\d+$/);
});

test("a second deploy says that its steps are cached", async (t) => {
  const path = project(t, { "tasks/a.ts": { id: "a", steps: run("echo cached later") } });
  const again = [binary, "deploy", path, "--skip-promotion"];
  await onTerminal(again, wide);
  const { lines } = await onTerminal([...again, "--timeout", "5m"], wide, { NO_COLOR: "1" });
  assert.equal(matching(lines, /^✓ i 2\/2 RUN .* cached$/).length, 1, lines.join("\n"));
});

test("a small terminal is never left, and nothing of a picture scrolls away", async (t) => {
  const steps = Array.from({ length: 14 }, (_, i) => `.env("V${i}", "x")`).join("") + run("sleep 1");
  const path = project(t, { "tasks/a.ts": { steps } });
  const size = { columns: 40, rows: 9 };
  const { code, lines, screens } = await onTerminal(deployed(path), size);
  assert.equal(code, 0, lines.join("\n"));
  assert.ok(screens.some((screen) => matching(screen, /^✓ \d+ done$/).length === 1));
  assert.equal(matching(lines, /^✓ \d+ done$/).length, 0, lines.join("\n"));
  for (let index = 1; index <= 16; index++)
    assert.equal(matching(lines, RegExp(`^✓ i ${index}/16 `)).length, 1, lines.join("\n"));
});

const failing = {
  "tasks/a.ts": null,
  ...tasks({
    bad: run("seq -f 'bad %g' 60; sleep 1; echo the end; exit 7"),
    good: run("seq -f 'good %g' 60; sleep 5"),
  }),
};

/* The last forty lines of the step that failed, and none of the other. */
function checkTail(lines: readonly string[]): void {
  const from = lines.findIndex((line) => line === "The last lines of bad 2/2:");
  const tail = lines.slice(from + 1, from + 41);
  assert.notEqual(from, -1, lines.join("\n"));
  assert.deepEqual(tail, [
    ...Array.from({ length: 39 }, (_, i) => `  bad ${i + 22}`),
    "  the end",
  ]);
  assert.match(lines[from + 41] as string, /^helmr: deployment build: .*step 2 of 2/);
  assert.match(lines.slice(from + 41).join(""), /exited with code 7/);
}

test("a step that fails is marked and has the last word, on a terminal", async (t) => {
  const tall = { columns: 200, rows: 60 };
  const { code, lines, cursorIsShown } = await onTerminal(deployed(project(t, failing)), tall);
  assert.equal(code, 1);
  assert.ok(cursorIsShown);
  assert.equal(matching(lines, /^✗ bad 2\/2 RUN .* failed after \d+\.\d s$/).length, 1);
  checkTail(lines);
});

test("a step that fails has the last word, in a pipe", async (t) => {
  const { code, stdout, stderr } = await helmr(deployed(project(t, failing)).slice(1));
  const lines = stderr.trimEnd().split("\n");
  assert.equal(code, 1);
  assert.equal(stdout, "");
  assert.doesNotMatch(stderr, /\x1b/);
  assert.equal(matching(lines, /^bad 2\/2 RUN .* failed after \d+\.\d s$/).length, 1);
  assert.ok(matching(lines, /^ {2}good: good \d+$/).length > 0, stderr);
  checkTail(lines);
});

test("a step that fails has the last word, with JSON lines on stdout", async (t) => {
  const { code, stdout, stderr } = await helmr([...deployed(project(t, failing)), "--json"].slice(1));
  assert.equal(code, 1);
  for (const line of stdout.trimEnd().split("\n")) assert.ok(JSON.parse(line).type);
  checkTail(stderr.trimEnd().split("\n"));
});
