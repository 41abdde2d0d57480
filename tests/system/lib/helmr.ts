// The Helmr under test as `run` started it: its command line, its API, its client.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { HelmrClient } from "@helmr/sdk";
import type { RunSnapshot } from "@helmr/sdk";

function setting(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: start the tests with tests/system/run`);
  return value;
}

export const binary = setting("HELMR");
export const dataDir = setting("SYSTEM_DATA_DIR");
export const url = setting("HELMR_API_URL");
export const apiKey = setting("SYSTEM_API_KEY");
export const projects = new URL("../projects/", import.meta.url).pathname;
export const examples = new URL("../../../examples/", import.meta.url).pathname;

export const client = new HelmrClient({ url, apiKey });

export interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface CliOptions {
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  readonly input?: string;
}

const outputLimit = 256 * 1024 * 1024;

/** One command, signed in as the local owner. */
export function helmr(args: readonly string[], options: CliOptions = {}): Promise<Result> {
  const { cwd } = options;
  const env = { ...process.env, ...options.env };
  return new Promise((resolve) => {
    const child = execFile(
      binary,
      [...args],
      { cwd, env, maxBuffer: outputLimit },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
    child.stdin?.end(options.input ?? "");
  });
}

/** What a command printed; it must succeed. */
export async function printed(args: readonly string[], options: CliOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await helmr(args, options);
  assert.equal(code, 0, `helmr ${args.join(" ")}: ${stderr}`);
  return stdout;
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

/** One request as it is written, for what the client would refuse to send. */
export async function api(path: string, request: Request = {}): Promise<Answer> {
  const { method = "GET", key = apiKey, body, headers = {} } = request;
  const response = await fetch(`${url}/api${path}`, {
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
}

export interface EventRecord {
  readonly cursor: string;
  readonly kind: string;
  readonly attributes: Record<string, any>;
}

async function pages(path: string): Promise<EventRecord[]> {
  const all: EventRecord[] = [];
  for (let cursor = ""; ;) {
    const { status, body } = await api(`${path}/events?limit=200${cursor}`);
    assert.equal(status, 200);
    all.push(...body.events);
    if (!body.next_cursor) return all;
    cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`;
  }
}

export const runEvents = (id: string): Promise<EventRecord[]> => pages(`/runs/${id}`);

export interface Deployed extends Result {
  readonly id: string;
  readonly record: any;
  readonly events: EventRecord[];
}

/** Deploys without making it current: tests name the deployment they mean. */
export async function deploy(path: string, ...flags: string[]): Promise<Deployed> {
  const result = await helmr(["deploy", path, "--json", "--skip-promotion", ...flags]);
  const lines = result.stdout.split("\n").filter((line) => line !== "");
  const created = lines
    .map((line) => JSON.parse(line))
    .find((line) => line.type === "deployment_created");
  assert.ok(created, `nothing was deployed: ${result.stderr}`);
  const { id } = created.deployment;
  const { body } = await api(`/deployments/${id}`);
  return { ...result, id, record: body, events: await pages(`/deployments/${id}`) };
}

/** The id of a deployment that must be made without a fault. */
export async function deployed(path: string): Promise<string> {
  const { id, code, stderr, record } = await deploy(path);
  assert.equal(record.status, "deployed", JSON.stringify(record.error) + stderr);
  assert.equal(code, 0, stderr);
  return id;
}

const patienceMs = 120_000;

/** Starts a task and gives its snapshot once it is over. */
export async function run(
  deploymentId: string,
  task: string,
  payload?: unknown,
  options: Record<string, unknown> = {},
): Promise<RunSnapshot> {
  const handle = await client.tasks.trigger(task, payload, { deploymentId, ...options });
  return client.runs.wait(handle, { timeoutMs: patienceMs });
}

/** Once the run has printed the text. */
export async function said(id: string, text: string): Promise<void> {
  for (;;) {
    const { stdout } = await client.runs.logs.retrieve(id);
    if (stdout.includes(text)) return;
    const { isTerminal, status } = await client.runs.retrieve(id);
    assert.ok(!isTerminal, `the run was ${status} before it said ${text}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
