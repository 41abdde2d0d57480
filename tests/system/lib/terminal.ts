// A command on a terminal of a given size, and what that terminal shows while it runs: as much of
// one as the command line uses. Whatever else it is sent is an error.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";

interface Size {
  readonly columns: number;
  readonly rows: number;
}

class Terminal {
  /** Everything there ever was, the last `rows` lines being the screen. */
  readonly lines: string[] = [""];
  cursorIsShown = true;
  private readonly size: Size;
  private row = 0;
  private column = 0;

  constructor(size: Size) {
    this.size = size;
  }

  private get top(): number {
    return Math.max(0, this.lines.length - this.size.rows);
  }

  private down(): void {
    this.row++;
    if (this.row === this.lines.length) this.lines.push("");
  }

  private put(text: string): void {
    if (this.column === this.size.columns) {
      this.down();
      this.column = 0;
    }
    const line = (this.lines[this.row] as string).padEnd(this.column);
    this.lines[this.row] = line.slice(0, this.column) + text + line.slice(this.column + 1);
    this.column++;
  }

  /* What each code does, by its last letter. */
  private readonly codes: Record<string, (argument: string) => void> = {
    A: (n) => {
      const up = Number(n || 1);
      assert.ok(this.row - up >= this.top, `up ${up} leads out of the screen`);
      this.row -= up;
    },
    J: (n) => {
      assert.equal(n, "");
      this.codes.K?.("");
      this.lines.length = this.row + 1;
    },
    K: (n) => {
      assert.equal(n, "");
      this.lines[this.row] = (this.lines[this.row] as string).slice(0, this.column);
    },
    h: (mode) => {
      assert.equal(mode, "?25");
      this.cursorIsShown = true;
    },
    l: (mode) => {
      assert.equal(mode, "?25");
      this.cursorIsShown = false;
    },
    m: () => {},
  };

  take(text: string): void {
    for (const [all, argument, letter] of text.matchAll(/\x1b\[([?0-9;]*)([A-Za-z])|[^]/gu)) {
      if (letter !== undefined) {
        const code = this.codes[letter];
        assert.ok(code, `an unknown code: ${JSON.stringify(all)}`);
        code(argument as string);
      } else if (all === "\r") this.column = 0;
      else if (all === "\n") this.down();
      else {
        assert.ok(all >= " ", `a control character: ${JSON.stringify(all)}`);
        this.put(all);
      }
    }
  }

  get screen(): string[] {
    return this.lines.slice(this.top);
  }
}

export interface Shown {
  readonly code: number;
  /** The terminal at the end, with all that has scrolled out of it. */
  readonly lines: readonly string[];
  /** The screen after each picture. */
  readonly screens: readonly (readonly string[])[];
  readonly cursorIsShown: boolean;
}

/** Text is ASCII, but for signs of one column. */
export function onTerminal(
  command: readonly string[],
  size: Size,
  env: Record<string, string> = {},
): Promise<Shown> {
  const quoted = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const line = `stty cols ${size.columns} rows ${size.rows} && exec ${quoted}`;
  return new Promise((resolve, reject) => {
    const child = execFile(
      "script",
      ["--quiet", "--return", "--command", line, "/dev/null"],
      { env: { ...process.env, TERM: "xterm", LANG: "C.UTF-8", ...env }, maxBuffer: 2 ** 28 },
      (_error, text) => {
        const terminal = new Terminal(size);
        const screens: string[][] = [];
        try {
          for (const picture of text.split(/(?=\x1b\[\?25l)/)) {
            terminal.take(picture);
            screens.push(terminal.screen);
          }
        } catch (error) {
          return reject(error);
        }
        const { lines, cursorIsShown } = terminal;
        resolve({ code: child.exitCode ?? -1, lines, screens, cursorIsShown });
      },
    );
    child.stdin?.end();
  });
}
