// Logs as lines with colours, from bytes that are cut anywhere.
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { carriedOver, pieces, withoutAnsi } from "../src/ui/ansi.ts";
import { LogLines } from "../src/ui/log_lines.ts";

Object.assign(globalThis, { requestAnimationFrame: queueMicrotask });

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const red = "\u001b[31m";
const off = "\u001b[0m";

suite("the lines of a log", () => {
  test("two streams are cut at their own line ends, and a letter is never cut", () => {
    const log = new LogLines();
    const [first, second] = [bytes("Grü"), bytes("ße\nrest")];
    log.add("stdout", first.slice(0, 3));
    log.add("stderr", bytes("warn\n"));
    log.add("stdout", new Uint8Array([...first.slice(3), ...second]));
    log.end();
    assert.deepEqual(
      log.lines.map(({ text, isError }) => [text, isError]),
      [
        ["warn", true],
        ["Grüße", false],
        ["rest", false],
      ],
    );
    assert.deepEqual(log.of, { stdout: [1, 2], stderr: [0] });
  });

  test("a line without an end is shown in parts", () => {
    const log = new LogLines();
    log.add("stdout", bytes("x".repeat(20_000)));
    log.end();
    assert.ok(log.lines.length > 1);
    assert.equal(log.lines.map(({ text }) => text).join("").length, 20_000);
  });

  test("a colour that a line leaves on goes on in the next of its stream only", () => {
    const log = new LogLines();
    log.add("stdout", bytes(`${red}one\ntwo${off}\nthree\n`));
    log.add("stderr", bytes("four\n"));
    assert.deepEqual(
      log.lines.map(({ carried }) => carried),
      [undefined, red, undefined, undefined],
    );
  });
});

suite("sequences of terminals", () => {
  const rows: [string, string, string, string][] = [
    ["nothing changes nothing", red, "plain", red],
    ["an empty one turns all off", red, "x\u001b[m", ""],
    ["zero turns all off", red, `x${off}`, ""],
    ["zero and more begins anew", red, "\u001b[0;32mx", "\u001b[0;32m"],
    ["more is added", red, "\u001b[1mx", `${red}\u001b[1m`],
    ["what is no colour is left out", "", "\u001b[2J\u001b]0;title\u0007x", ""],
    ["too much is forgotten", "", red.repeat(100), ""],
  ];
  for (const [name, before, line, after] of rows)
    test(name, () => assert.equal(carriedOver(before, line), after));

  test("they are looks of text, and links and titles are nothing", () => {
    const line = `a${red}b\u001b]8;;javascript:x\u0007c${off}\u001b[38;2;1;2;3md`;
    assert.equal(withoutAnsi(line), "abcd");
    assert.deepEqual(
      pieces(line).map(({ text, classes, color }) => [text, classes, color]),
      [
        ["a", "", undefined],
        ["b", "ansi-fg-1", undefined],
        ["c", "ansi-fg-1", undefined],
        ["d", "", "rgb(1 2 3)"],
      ],
    );
  });
});
