// The real adapter in a directory laid out as in a guest, with the test as its agent.
import { execFileSync, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Duplex, Readable } from "node:stream";
import { decodeBody, encodeBody, encodeFrame, FrameReader } from "../src/codec.ts";
import type { Frame } from "../src/codec.ts";
import { FRAME_END, STREAM_PAYLOAD } from "../src/messages.ts";
import type { ALoaded, ALog, AOutcome, AStart, MessageName } from "../src/messages.ts";

const runtime = join(import.meta.dirname, "..");
const sdk = join(runtime, "../../sdk/typescript");
const addon = join(
  runtime,
  "../..",
  process.env.B ?? "build",
  "guest/runtime/typescript/native/reseed.node",
);

/** Whether `make guest` has been here: without the addon nothing is parked. */
export const hasAddon = existsSync(addon);

/** HELMR_TEST_NODE is another Node for the adapter, such as the oldest that images may have. */
const node = process.env.HELMR_TEST_NODE ?? process.execPath;
export const nodeVersion = execFileSync(node, ["-p", "process.versions.node"], {
  encoding: "utf8",
}).trim();

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly frames: readonly Frame[];
  readonly loaded: ALoaded | undefined;
  readonly outcome: AOutcome | undefined;
  readonly logs: readonly ALog[];
  readonly output: unknown;
}

export type Files = Record<string, string>;

export function writeFiles(root: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}

/** A directory with adapter/, sdk/, task/, deps/ and workspace/, removed by `using`. */
export class Guest implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), "helmr-guest-"));
  readonly workspace = join(this.root, "workspace");

  constructor(files: Files = {}) {
    for (const name of ["task", "deps", "workspace"]) mkdirSync(join(this.root, name));
    cpSync(join(runtime, "dist"), join(this.root, "adapter"), { recursive: true });
    if (hasAddon) cpSync(addon, join(this.root, "adapter/reseed.node"));
    cpSync(join(sdk, "dist"), join(this.root, "sdk/dist"), { recursive: true });
    /* As a deployment leaves them: types gone, names kept. */
    const plain = Object.entries(files).map(([path, text]) =>
      /\.[cm]?ts$/.test(path) ? [path, stripTypeScriptTypes(text)] : [path, text],
    );
    writeFiles(join(this.root, "task"), Object.fromEntries(plain) as Files);
  }

  write(files: Files): void {
    writeFiles(this.root, files);
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }

  /** The adapter, waiting to be told what to do. */
  launch(nodeOptions: readonly string[] = []): Program {
    return new Program(this, nodeOptions);
  }

  startMessage(message: Partial<AStart>): AStart {
    const workspacePath = this.workspace;
    return { mode: "run", module: "tasks/task.ts", export: "subject", workspacePath, ...message };
  }

  start(
    message: Partial<AStart>,
    payload?: string | Uint8Array,
    env: Record<string, string> = {},
  ): Program {
    const program = this.launch();
    for (const [name, value] of Object.entries(env))
      program.send("A_ENV", { name, value: Buffer.from(value) });
    const bytes = payload === undefined ? undefined : Buffer.from(payload);
    const length = bytes && { payloadLen: BigInt(bytes.length) };
    program.send("A_START", this.startMessage({ ...length, ...message }));
    if (bytes) program.sendData(STREAM_PAYLOAD, bytes);
    return program;
  }

  run(message: Partial<AStart> = {}, payload?: string | Uint8Array): Promise<Ended> {
    return this.start(message, payload).ended;
  }
}

async function textOf(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

export class Program {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  readonly #frames: Frame[] = [];
  readonly #waiting: { name: MessageName; resolve: (frame: Frame) => void }[] = [];
  readonly #taken = new Map<MessageName, number>();

  constructor(guest: Guest, nodeOptions: readonly string[]) {
    this.child = spawn(node, [...nodeOptions, join(guest.root, "adapter/main.js")], {
      cwd: guest.workspace,
      env: { PATH: process.env.PATH, HELMR_CONTROL_FD: "3" },
      stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
    });
    for (const link of [this.#control, this.#barrier]) {
      const reader = new FrameReader("adapter");
      link.on("data", (chunk: Buffer) => {
        reader.push(chunk);
        for (let frame = reader.next(); frame; frame = reader.next()) this.#arrived(frame);
      });
    }
    this.ended = this.#end();
  }

  get #control(): Duplex {
    return this.child.stdio[3] as Duplex;
  }

  get #barrier(): Duplex {
    return this.child.stdio[4] as Duplex;
  }

  send(name: MessageName, body: object): void {
    this.#control.write(encodeFrame(name, encodeBody(name, body as Record<string, unknown>)));
  }

  sendBarrier(name: MessageName, body: object): void {
    this.#barrier.write(encodeFrame(name, encodeBody(name, body as Record<string, unknown>)));
  }

  sendData(stream: number, bytes: Buffer): void {
    for (let at = 0; at === 0 || at < bytes.length; at += 65_536)
      this.#control.write(
        encodeFrame(
          "DATA",
          bytes.subarray(at, at + 65_536),
          stream,
          at + 65_536 >= bytes.length ? FRAME_END : 0,
        ),
      );
  }

  /** The first such frame, also when it is already there. */
  until(name: MessageName): Promise<Frame> {
    const found = this.#frames.find((frame) => frame.name === name);
    if (found) return Promise.resolve(found);
    return new Promise((resolve) => this.#waiting.push({ name, resolve }));
  }

  /** The body of the first such frame that was not taken before. */
  async next<T>(name: MessageName): Promise<T> {
    const before = this.#taken.get(name) ?? 0;
    this.#taken.set(name, before + 1);
    const frames = this.#frames.filter((frame) => frame.name === name);
    const frame =
      frames[before] ??
      (await new Promise<Frame>((resolve) => this.#waiting.push({ name, resolve })));
    return decodeBody<T>(name, frame.body);
  }

  #arrived(frame: Frame): void {
    this.#frames.push(frame);
    const served = this.#waiting.filter(({ name }) => name === frame.name);
    for (const waiting of served) {
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.resolve(frame);
    }
  }

  async #end(): Promise<Ended> {
    const closed = new Promise<number | null>((resolve) => this.child.on("close", resolve));
    const [code, stdout, stderr] = await Promise.all([
      closed,
      textOf(this.child.stdout as Readable),
      textOf(this.child.stderr as Readable),
    ]);
    const bodies = <T>(name: MessageName): T[] =>
      this.#frames
        .filter((frame) => frame.name === name)
        .map((frame) => decodeBody<T>(name, frame.body));
    const data = this.#frames.filter((frame) => frame.name === "DATA").map((frame) => frame.body);
    return {
      code,
      stdout,
      stderr,
      frames: this.#frames,
      loaded: bodies<ALoaded>("A_LOADED")[0],
      outcome: bodies<AOutcome>("A_OUTCOME")[0],
      logs: bodies<ALog>("A_LOG"),
      output:
        data.length === 0 ? undefined : (JSON.parse(Buffer.concat(data).toString()) as unknown),
    };
  }
}
