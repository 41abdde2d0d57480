// Commands in a workspace, over the API as it is.
import assert from "node:assert/strict";
import type { Answer, Installation } from "./installation.ts";
import { patience } from "./engine.ts";
import { until } from "./own.ts";

export interface Exec {
  readonly id: string;
  readonly state: string;
  readonly exit_code?: number;
  readonly signal?: string;
  readonly error?: string;
  readonly process_id?: number;
}

const live = ["mounting", "mounted", "unmounting"];

const isOver = ({ state }: Exec): boolean => ["exited", "failed", "lost"].includes(state);

/** One workspace and what runs in it. */
export class Commands {
  readonly #on: Installation;
  readonly id: string;

  constructor(on: Installation, id: string) {
    this.#on = on;
    this.id = id;
  }

  static async create(on: Installation, sandbox: string, more: object = {}): Promise<Commands> {
    const answer = await on.api("/workspaces", json({ sandbox_id: sandbox, ...more }));
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    return new Commands(on, answer.body.workspace.id);
  }

  api = (path: string, body?: object): Promise<Answer> =>
    this.#on.api(`/workspaces/${this.id}${path}`, body === undefined ? {} : json(body));

  async start(command: readonly string[], more: object = {}): Promise<Exec> {
    const { status, body } = await this.api("/execs", { command, ...more });
    assert.equal(status, 201, JSON.stringify(body));
    return body.exec;
  }

  look = async (id: string): Promise<Exec> => (await this.api(`/execs/${id}`)).body;

  async wait(id: string): Promise<Exec> {
    let found: Exec | undefined;
    await until(`the end of ${id}`, async () => isOver((found = await this.look(id))));
    return found as Exec;
  }

  running = (id: string): Promise<void> =>
    until(`the start of ${id}`, async () => (await this.look(id)).state === "running");

  /** Everything that it wrote, page after page. */
  async output(id: string, stream: "stdout" | "stderr" = "stdout"): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let cursor = 0; ;) {
      const { status, body } = await this.api(`/execs/${id}/${stream}?cursor=${cursor}`);
      assert.equal(status, 200, JSON.stringify(body));
      for (const { data, offset_start, offset_end } of body.chunks) {
        assert.equal(offset_start, cursor);
        pieces.push(Buffer.from(data, "base64"));
        cursor = offset_end;
      }
      if (body.chunks.length === 0) return Buffer.concat(pieces);
    }
  }

  /** Runs to its end. */
  async run(command: readonly string[], more: object = {}): Promise<Exec & { out: string; err: string }> {
    const ended = await this.wait((await this.start(command, more)).id);
    const [out, err] = await Promise.all([this.output(ended.id), this.output(ended.id, "stderr")]);
    return { ...ended, out: out.toString(), err: err.toString() };
  }

  sh = (script: string, more: object = {}) => this.run(["sh", "-c", script], more);

  mountState = async (): Promise<string | undefined> => (await this.api("")).body.mount?.state;

  async stop(): Promise<void> {
    const { status, body } = await this.api("/stop", {});
    assert.equal(status, 202, JSON.stringify(body));
    await this.unmounted();
  }

  unmounted = (): Promise<void> =>
    until("no mount", async () => !live.includes((await this.mountState()) ?? ""));
}

export function json(body: object): { method: string; body: string; headers: Record<string, string> } {
  return { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
}

/** What an event stream of an exec says, until its end. */
export async function* frames(
  on: Installation,
  path: string,
): AsyncGenerator<{ event: string; data: any }> {
  const answer = await fetch(`${on.place.url}/api${path}`, {
    headers: { authorization: `Bearer ${on.place.apiKey}`, accept: "text/event-stream" },
    signal: AbortSignal.timeout(patience(120_000)),
  });
  assert.equal(answer.status, 200);
  let text = "";
  for await (const piece of answer.body as ReadableStream<Uint8Array>) {
    text += Buffer.from(piece).toString("latin1");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fields = new Map(
        text.slice(0, end).split("\n").map((line) => line.split(/: (.*)/s) as [string, string]),
      );
      text = text.slice(end + 2);
      const event = fields.get("event");
      if (event) yield { event, data: JSON.parse(fields.get("data") as string) };
    }
  }
}
