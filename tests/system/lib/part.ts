// One process of Helmr that a test starts, kills and starts again.
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";

export class Part {
  readonly #file: string;
  readonly #args: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: string;
  #child: ChildProcess | undefined;

  constructor(file: string, args: readonly string[], env: NodeJS.ProcessEnv, log: string) {
    this.#file = file;
    this.#args = args;
    this.#env = env;
    this.#log = log;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get isRunning(): boolean {
    const child = this.#child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  start(): void {
    const log = openSync(this.#log, "a");
    this.#child = spawn(this.#file, this.#args, { env: this.#env, stdio: ["ignore", log, log] });
    closeSync(log);
  }

  async end(signal: "SIGKILL" | "SIGTERM"): Promise<number | null> {
    const child = this.#child as ChildProcess;
    if (!this.isRunning) return child.exitCode;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
    return child.exitCode;
  }
}
