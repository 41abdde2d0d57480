// Compiled, never run: what the types must infer, and what they must refuse.
import {
  defineConfig,
  HelmrClient,
  image,
  queue,
  sandbox,
  schedules,
  sessions,
  source,
  streams,
  task,
  timers,
  tokens,
} from "@helmr/sdk";
import type {
  Placement,
  RunEvent,
  SchedulePayload,
  StandardSchemaV1,
  StreamRecord,
  Task,
  TaskContext,
  TaskOutput,
  TaskPayload,
  Wait,
  WaitResult,
} from "@helmr/sdk";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function holds<_T extends true>(): void {}

const sbx = sandbox("s").image(image("i").from("node:24"));
declare const schema: StandardSchemaV1<{ n?: string }, { n: number }>;

export const withSchema = task({
  id: "a",
  sandbox: sbx,
  payload: schema,
  run: async (payload, ctx) => {
    holds<Same<typeof payload, { n: number }>>();
    holds<Same<typeof ctx, TaskContext>>();
    return payload.n;
  },
});
holds<Same<typeof withSchema, Task<{ n?: string }, number>>>();
holds<Same<TaskPayload<typeof withSchema>, { n?: string }>>();
holds<Same<TaskOutput<typeof withSchema>, number>>();

export const withEvent = task({
  id: "b",
  sandbox: sbx,
  run: async (event: { prNumber: number }, ctx) => {
    holds<Same<typeof ctx, TaskContext>>();
    return `${event.prNumber} ${ctx.run.id}`;
  },
});
holds<Same<typeof withEvent, Task<{ prNumber: number }, string>>>();

export const withContext = task({
  id: "c",
  sandbox: sbx,
  run: async (ctx) => {
    holds<Same<typeof ctx, TaskContext>>();
    return { path: ctx.workspace.path, aborted: ctx.signal.aborted };
  },
});
holds<Same<TaskPayload<typeof withContext>, undefined>>();

export const withNothing = task({ id: "d", sandbox: sbx, run: () => 1 });
holds<Same<TaskOutput<typeof withNothing>, number>>();

export async function calls(): Promise<void> {
  await withEvent.trigger({ prNumber: 1 });
  await withSchema.trigger({ n: "1" }, { tags: ["a"], ttl: { minutes: 1 } });
  const client = new HelmrClient({ url: "https://example.com" });
  const handle = await client.tasks.trigger(withEvent, { prNumber: 1 });
  const snapshot = await client.runs.wait(handle, { timeoutMs: 1000 });
  holds<Same<typeof snapshot.createdAt, Date>>();
  for await (const event of client.runs.events.subscribe(handle)) {
    holds<Same<typeof event, RunEvent>>();
    if (event.type === "task_result") holds<Same<typeof event.exit_code, number>>();
    if (event.type === "token_wait") holds<Same<typeof event.wait_id, string>>();
    if (event.type === "timer_wait_completed") holds<Same<typeof event.payload, unknown>>();
    // @ts-expect-error an event of a wait has no exit code
    if (event.type === "token_wait_failed") holds<Same<typeof event.exit_code, number>>();
  }
  holds<Same<typeof snapshot.pendingWait, Wait | null>>();
  const created = await client.tokens.create({ timeout: "1h" });
  holds<Same<typeof created.publicAccessToken, string>>();
  const { status, token } = await client.tokens.complete(created, { approved: true });
  holds<Same<typeof status, "completed" | "already_completed">>();
  holds<Same<typeof token.completedAt, Date | undefined>>();
  await client.auth.createPublicToken({ scope: { type: "token.complete", token }, maxUses: 1 });
  const fork = await client.runs.fork(handle, { data: { approved: false } });
  holds<Same<typeof fork.wait.createdAt, Date>>();
  for (const entry of (await client.runs.diff(fork.run, { patch: true })).entries)
    holds<Same<typeof entry.patch, string | undefined>>();

  // @ts-expect-error the payload's type is the task's
  await withEvent.trigger({ prNumber: "1" });
  // @ts-expect-error the client knows it, too
  await client.tasks.trigger(withEvent, { pr: 1 });
  // @ts-expect-error a duration is no date
  await withEvent.trigger({ prNumber: 1 }, { ttl: new Date() });
  // @ts-expect-error a public token is for something
  await client.auth.createPublicToken({ maxUses: 1 });
  // @ts-expect-error a token has no such status
  await client.tokens.list({ status: "open" });
}

// @ts-expect-error every task has a sandbox
task({ id: "e", run: async () => 1 });
// @ts-expect-error a schedule is not a key of a task
task({ id: "e", sandbox: sbx, schedule: "* * * * *", run: async () => 1 });
// @ts-expect-error without retries there is nothing else to say
task({ id: "e", sandbox: sbx, retry: { enabled: false, maxAttempts: 2 }, run: async () => 1 });
const other = async (payload: { other: string }): Promise<unknown> => payload;
// @ts-expect-error the schema's output is what run is given
task({ id: "e", sandbox: sbx, payload: schema, run: other });
// @ts-expect-error the context cannot be written to
task({ id: "e", sandbox: sbx, run: async (ctx) => (ctx.run.id = "x") });
// @ts-expect-error a command is a list
image("i").from("a").run("ls");
// @ts-expect-error a path is no source
image("i").from("a").copy("/a", "b");
// @ts-expect-error ports are numbers
sandbox("s").network({ ports: ["80"] });
// @ts-expect-error a queue has a name
queue({ concurrencyLimit: 1 });
// @ts-expect-error dirs are needed
defineConfig({ project: "p" });
// @ts-expect-error a directory's options are known
source.directory("a", { include: [] });
// @ts-expect-error one place for each secret
export const twice: Placement = { env: "A", file: "a" };
// @ts-expect-error a variable has no mode
export const moded: Placement = { env: "A", mode: "0600" };
export const placements: Placement[] = [
  { env: "A" },
  { file: "a", mode: "0600" },
  { dir: "a", owner: "0:0" },
];

export const waiting = task({
  id: "w",
  sandbox: sbx,
  run: async (ctx) => {
    const answer = await ctx.wait.human<{ approved: boolean }>({ displayText: "?" });
    holds<Same<typeof answer, { approved: boolean }>>();
    const checked = await ctx.wait.human({ schema });
    holds<Same<typeof checked, { n: number }>>();
    const anything = await ctx.wait.human();
    holds<Same<typeof anything, unknown>>();
    const nothing = await ctx.wait.for({ minutes: 5 });
    holds<Same<typeof nothing, void>>();
    const token = await tokens.create({ timeout: "7d" });
    const result = await token.wait({ schema, idleTimeout: 0 });
    holds<Same<typeof result, WaitResult<{ n: number }>>>();
    if (result.ok) holds<Same<typeof result.data, { n: number }>>();
    else holds<Same<typeof result.error, Error>>();
    const text = await tokens.wait<string>(token.id).unwrap();
    holds<Same<typeof text, string>>();
    await timers.waitUntil(new Date()).unwrap();
    // @ts-expect-error a person is asked with one of three forms
    await ctx.wait.human({ form: "video" });
    // @ts-expect-error an instant is no number
    await ctx.wait.until(5);
  },
});

export const scheduled = schedules.task({
  id: "n",
  sandbox: sbx,
  cron: { pattern: "0 3 * * *", timezone: "UTC" },
  secretBindings: { TOKEN: "vault:OTHER" },
  run: async (payload, ctx) => {
    holds<Same<typeof payload, SchedulePayload>>();
    holds<Same<typeof ctx, TaskContext>>();
    return payload.timestamp.getTime();
  },
});
holds<Same<TaskPayload<typeof scheduled>, SchedulePayload>>();
holds<Same<TaskOutput<typeof scheduled>, number>>();
// @ts-expect-error: a payload is the schedule's own
schedules.task({ id: "o", sandbox: sbx, payload: schema, run: async () => 1 });
schedules.task({
  id: "p",
  sandbox: sbx,
  cron: "0 3 * * *",
  // @ts-expect-error: the only source of a secret is the vault
  secretBindings: { TOKEN: "env:HOME" },
  run: async () => 1,
});

const spoken = streams.input("spoken", { schema });
const heard = streams.input<string>("heard");
const said = streams.output<{ text: string }>("said");

export const talking = task({
  id: "t",
  sandbox: sbx,
  run: async (_ctx) => {
    const parsed = await spoken.wait({ timeout: "7d", correlationId: "c" }).unwrap();
    holds<Same<typeof parsed, { n: number }>>();
    const result = await heard.once();
    holds<Same<typeof result, WaitResult<string>>>();
    heard.on((data) => holds<Same<typeof data, string>>());
    const peeked = await spoken.peek();
    holds<Same<typeof peeked, StreamRecord<{ n: number }> | null>>();
    await said.append({ text: "hello" });
    // @ts-expect-error what is said has a text
    await said.append({ word: "hello" });
    // @ts-expect-error a live wait has no time in which the sandbox stays
    await heard.once({ idleTimeout: 0 });
  },
});
const conversation = sessions.open("s");
void conversation.input(heard).send("hello");
// @ts-expect-error what is heard is text
void conversation.input(heard).send(5);
// @ts-expect-error an output is not sent to
void conversation.input(said);
