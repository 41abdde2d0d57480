// The review example in a project of its own, as the rows about it need it.
import assert from "node:assert/strict";
import { examples, helmr, printed } from "./helmr.ts";
import type { CliOptions, Result } from "./installation.ts";
import { until } from "./own.ts";

const project = "github-pr-review";
const folder = `${examples}${project}`;

export const key = "sk-of-the-checklist";
export const payload = '{"owner":"OWNER","repo":"REPO","prNumber":123}';

/** A command in the project's folder. */
export const tried = (args: readonly string[], options: CliOptions = {}): Promise<Result> =>
  helmr(args, { cwd: folder, ...options });

export const said = (args: readonly string[], options: CliOptions = {}): Promise<string> =>
  printed(args, { cwd: folder, ...options });

export const startArgs = ["run", "review-pr", "--payload-json", payload];
export const bound = ["--secret", "OPENAI_API_KEY=vault:OPENAI_API_KEY"];

export const show = async (id: string): Promise<any> =>
  JSON.parse(await said(["show", id, "--json"]));

export const eventsOf = async (id: string): Promise<any[]> =>
  (await said(["events", id])).trim().split("\n").map((line) => JSON.parse(line));

/** Once an event of the kind is there. */
export async function event(id: string, kind: string): Promise<any> {
  let found: unknown;
  await until(`${kind} of ${id}`, async () => {
    found = (await eventsOf(id)).find((one) => one.kind === kind);
    return found;
  });
  return found;
}

let made: Promise<string> | undefined;

/** The project with its secret and its deployment, made by the first row that needs it. */
export function deployedReview(): Promise<string> {
  made ??= (async () => {
    await printed(["project", "create", project]);
    await said(["secret", "set", "OPENAI_API_KEY"], { input: key });
    const version = await said(["deploy"]);
    assert.match(version, /^\d{8}\.\d+\n$/);
    return version.trim();
  })();
  return made;
}

let begun: Promise<string> | undefined;

/** What `helmr run review-pr` printed, of the one run that the rows share. */
export function startedReview(): Promise<string> {
  begun ??= deployedReview().then(() => said([...startArgs, ...bound]));
  return begun;
}
