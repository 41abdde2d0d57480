// A terminal with somebody at it: a command in a tmux of its own, keys typed into it, and what its
// screen shows.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { until } from "./own.ts";
import type { Scope } from "./scope.ts";

export interface ScreenOptions {
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Record<string, string>;
}

const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

export class Screen {
  readonly #socket = `helmr-${randomBytes(6).toString("hex")}`;

  /** The screen stays when the command has ended, and says how. */
  constructor(t: Scope, command: readonly string[], options: ScreenOptions = {}) {
    const { columns = 100, rows = 30, env = {} } = options;
    const set = Object.entries(env).map(([name, value]) => `${name}=${quote(value)}`);
    const line = `${["env", ...set].join(" ")} ${command.map(quote).join(" ")}; echo "[code $?]"; cat`;
    t.after(() => this.stop());
    this.#tmux("new-session", "-d", "-s", "s", "-x", `${columns}`, "-y", `${rows}`, line);
  }

  #tmux(...args: string[]): string {
    return execFileSync("tmux", ["-L", this.#socket, "-f", "/dev/null", ...args], {
      encoding: "utf8",
      env: { ...process.env, TMUX: "", LANG: "C.UTF-8" },
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  /** Text as it is. */
  type(text: string): void {
    this.#tmux("send-keys", "-t", "s", "-l", text);
  }

  /** Keys by their names: Enter, Escape, C-c. */
  press(...names: string[]): void {
    this.#tmux("send-keys", "-t", "s", ...names);
  }

  /** A line at a prompt. */
  enter(text: string): void {
    this.type(text);
    this.press("Enter");
  }

  resize(columns: number, rows: number): void {
    this.#tmux("resize-window", "-t", "s", "-x", `${columns}`, "-y", `${rows}`);
  }

  get text(): string {
    return this.#tmux("capture-pane", "-p", "-t", "s");
  }

  /** With colours, as escape sequences. */
  get coloured(): string {
    return this.#tmux("capture-pane", "-p", "-e", "-t", "s");
  }

  async shows(what: RegExp): Promise<void> {
    try {
      await until(`a screen with ${what}`, () => what.test(this.text));
    } catch (error) {
      assert.fail(`${error}\n${this.text}`);
    }
  }

  stop(): void {
    try {
      this.#tmux("kill-server");
    } catch {
      // It has ended by itself.
    }
  }
}
