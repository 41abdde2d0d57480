// One Helmr as its users see it: its command line, its API, its client.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { HelmrClient } from "@helmr/sdk";
import type { RunSnapshot } from "@helmr/sdk";
import { patience } from "./engine.ts";

export interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  /** What the command reads; nothing when left out. */
  readonly input?: string;
}

export interface Answer {
  readonly status: number;
  readonly body: any;
  readonly headers: Headers;
}

export interface Request {
  readonly method?: string;
  readonly key?: string;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly headers?: Record<string, string>;
}

export interface EventRecord {
  readonly cursor: string;
  readonly kind: string;
  readonly attributes: Record<string, any>;
}

export interface Deployed extends Result {
  readonly id: string;
  readonly record: any;
  readonly events: EventRecord[];
}

export interface Place {
  readonly binary: string;
  readonly dataDir: string;
  readonly url: string;
  readonly apiKey: string;
  /** Settings of every command, on top of this process's. */
  readonly env?: Record<string, string>;
}

const outputLimit = 256 * 1024 * 1024;

/** One command with the environment given; nothing is thrown, whatever it ends with. */
export function command(
  binary: string,
  args: readonly string[],
  { input, ...options }: CliOptions = {},
): Promise<Result> {
  const env = { ...process.env, ...options.env };
  return new Promise((resolve) => {
    const child = execFile(
      binary,
      [...args],
      { ...options, env, maxBuffer: outputLimit },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
    child.stdin?.on("error", () => {}); // It ended before it read everything.
    child.stdin?.end(input);
  });
}

/** The image steps of a deployment that ended well, in the order of their events. */
export const imageSteps = ({ events }: { events: readonly EventRecord[] }) =>
  events
    .filter(({ kind }) => kind === "deployment.build.step")
    .map(({ attributes }) => attributes)
    .filter(({ phase, total, status }) => phase === "image" && total && status === "done");

/** Everything that the steps of a deployment wrote. */
export const buildLog = ({ events }: { events: readonly EventRecord[] }): string =>
  events
    .filter(({ kind }) => kind === "deployment.build.log")
    .map(({ attributes }) => attributes.text)
    .join("");

export class Installation {
  readonly place: Place;
  readonly client: HelmrClient;

  constructor(place: Place) {
    this.place = place;
    this.client = new HelmrClient({ url: place.url, apiKey: place.apiKey });
  }

  /** One command, signed in as the local owner. */
  helmr = (args: readonly string[], options: CliOptions = {}): Promise<Result> => {
    const env = { ...this.place.env, HELMR_API_URL: this.place.url, ...options.env };
    return command(this.place.binary, args, { ...options, env });
  };

  /** What a command printed; it must succeed. */
  printed = async (args: readonly string[], options: CliOptions = {}): Promise<string> => {
    const { code, stdout, stderr } = await this.helmr(args, options);
    assert.equal(code, 0, `helmr ${args.join(" ")}: ${stderr}`);
    return stdout;
  };

  /** A command on the image store of this Helmr's worker. */
  image = (args: readonly string[], options: CliOptions = {}): Promise<Result> =>
    this.helmr(["image", ...args, "--data-dir", this.place.dataDir], options);

  /** One request as it is written, for what the client would refuse to send. */
  api = async (path: string, request: Request = {}): Promise<Answer> => {
    const { method = "GET", key = this.place.apiKey, body, headers = {} } = request;
    const response = await fetch(`${this.place.url}/api${path}`, {
      method,
      headers: { ...(key && { Authorization: `Bearer ${key}` }), ...headers },
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    return {
      status: response.status,
      body: text === "" ? undefined : JSON.parse(text),
      headers: response.headers,
    };
  };

  async #events(path: string): Promise<EventRecord[]> {
    const all: EventRecord[] = [];
    for (let cursor = ""; ;) {
      const { status, body } = await this.api(`${path}/events?limit=200${cursor}`);
      assert.equal(status, 200);
      all.push(...body.events);
      if (!body.next_cursor) return all;
      cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`;
    }
  }

  runEvents = (id: string): Promise<EventRecord[]> => this.#events(`/runs/${id}`);

  /** The deployment as it is on the server. */
  async #look(id: string, result: Result): Promise<Deployed> {
    const { body } = await this.api(`/deployments/${id}`);
    return { ...result, id, record: body, events: await this.#events(`/deployments/${id}`) };
  }

  /** Deploys without making it current: tests name the deployment they mean. */
  deploy = (path: string, ...flags: string[]): Promise<Deployed> =>
    this.watch(path, () => {}, ...flags);

  /** The same, with a look at each event while the build goes on. */
  watch = async (
    path: string,
    see: (event: EventRecord, id: string) => unknown,
    ...flags: string[]
  ): Promise<Deployed> => {
    const args = ["deploy", path, "--json", "--skip-promotion", ...flags];
    const env = { ...process.env, ...this.place.env, HELMR_API_URL: this.place.url };
    const child = spawn(this.place.binary, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    const ended = new Promise<number>((resolve) => child.on("close", (code) => resolve(code ?? -1)));
    let stdout = "";
    let stderr = "";
    let id = "";
    child.stderr.on("data", (bytes: Buffer) => (stderr += bytes.toString()));
    for await (const line of createInterface(child.stdout)) {
      stdout += `${line}\n`;
      const item = JSON.parse(line);
      if (item.type === "deployment_created") id = item.deployment.id;
      if (item.type === "deployment_event") see(item.event, id);
    }
    const code = await ended;
    assert.ok(id, `nothing was deployed: ${stderr}`);
    return this.#look(id, { code, stdout, stderr });
  };

  /** The id of a deployment that must be made without a fault. */
  deployed = async (path: string, ...flags: string[]): Promise<string> =>
    (await this.deployedWell(path, ...flags)).id;

  /** A deployment that must be made without a fault. */
  deployedWell = async (path: string, ...flags: string[]): Promise<Deployed> => {
    const made = await this.deploy(path, ...flags);
    assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error) + made.stderr);
    assert.equal(made.code, 0, made.stderr);
    return made;
  };

  /** Starts a task and gives its snapshot once it is over. */
  run = async (
    deploymentId: string,
    task: string,
    payload?: unknown,
    options: Record<string, unknown> = {},
  ): Promise<RunSnapshot> => {
    const handle = await this.client.tasks.trigger(task, payload, { deploymentId, ...options });
    return this.client.runs.wait(handle, { timeoutMs: patience(240_000) });
  };

  /** What a task gave back; it must succeed. */
  output = async (deploymentId: string, task: string, payload?: unknown): Promise<any> => {
    const ended = await this.run(deploymentId, task, payload);
    assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
    return ended.output;
  };

  /** Once the run has printed the text. */
  said = async (id: string, text: string): Promise<void> => {
    for (;;) {
      const { stdout } = await this.client.runs.logs.retrieve(id);
      if (stdout.includes(text)) return;
      const { isTerminal, status } = await this.client.runs.retrieve(id);
      assert.ok(!isTerminal, `the run was ${status} before it said ${text}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };

  /** The image store is whole: every byte of it was read back. */
  verified = async (): Promise<void> => {
    const { code, stdout, stderr } = await this.image(["verify"]);
    assert.equal(code, 0, stdout + stderr);
  };
}
