// Compiled, never run: what a client must know of tasks and streams, and what it must refuse.
import {
  auth,
  HelmrClient,
  idempotencyKeys,
  image,
  runs,
  sandbox,
  sessions,
  streams,
  task,
  tasks,
  workspaces,
} from "@helmr/sdk";
import type {
  AppendedRecord,
  IdempotencyKey,
  InputStream,
  RunHandle,
  RunSnapshot,
  SessionHandle,
  SessionSnapshot,
  SessionStartPayload,
  StandardSchemaV1,
  StreamRecord,
  StreamWriter,
  WorkspaceHandle,
  WorkspaceSnapshot,
} from "@helmr/sdk";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function holds<_T extends true>(): void {}

const sbx = sandbox("s").image(image("i").from("node:24"));
declare const schema: StandardSchemaV1<{ n?: string }, { n: number }>;
const review = task({
  id: "review",
  sandbox: sbx,
  payload: schema,
  run: async ({ n }) => ({ score: n }),
});
holds<Same<SessionStartPayload<typeof review>, { n?: string }>>();

/** The output's type goes from the task to wherever its run is seen. */
export async function outputs(client: HelmrClient): Promise<void> {
  const handle = await client.tasks.trigger(review, { n: "1" });
  holds<Same<typeof handle, RunHandle<{ score: number }>>>();
  holds<Same<Awaited<ReturnType<typeof review.trigger>>, RunHandle<{ score: number }>>>();
  const over = await client.runs.wait(handle);
  holds<Same<typeof over, RunSnapshot<{ score: number }>>>();
  holds<Same<typeof over.output, { score: number } | undefined>>();
  const again = await runs.retrieve(over);
  holds<Same<typeof again.output, { score: number } | undefined>>();
  const unknown = await runs.wait("id");
  holds<Same<typeof unknown.output, unknown>>();
  const plain = await tasks.trigger("review", { anything: 1 });
  holds<Same<typeof plain, RunHandle>>();
  // @ts-expect-error a run's output is not of another type
  const wrong: RunSnapshot<string> = over;
  return void wrong;
}

export async function started(): Promise<void> {
  const { session, run, isCached } = await sessions.start(
    review,
    { n: "1" },
    { externalId: "x", expiresAt: new Date(), queue: "q", ttl: "1h" },
  );
  holds<Same<typeof session, SessionSnapshot>>();
  holds<Same<typeof run.output, { score: number } | undefined>>();
  holds<Same<typeof isCached, boolean>>();
  const { timedOut, run: over } = await sessions.startAndWait(
    review,
    { n: "1" },
    { timeoutSeconds: 5 },
  );
  holds<Same<typeof timedOut, boolean>>();
  holds<Same<typeof over, RunSnapshot<{ score: number }>>>();
  holds<Same<typeof session.expiresAt, Date | null>>();
  holds<Same<typeof session.currentRunId, string | null>>();
  // @ts-expect-error the payload's type is the task's
  await sessions.start(review, { n: 1 });
  // @ts-expect-error a deployment is chosen for runs only
  await sessions.start(review, { n: "1" }, { deploymentId: "d" });
  // @ts-expect-error a session has no such status
  await sessions.list({ status: "running" });
  // @ts-expect-error an update has no task
  await sessions.update("s", { taskId: "t" });
}

export async function streamed(): Promise<void> {
  const handle = sessions.open({ externalId: "x" });
  holds<Same<typeof handle, SessionHandle>>();
  holds<Same<typeof handle.id, string | undefined>>();
  sessions.open(handle);
  sessions.open("id");
  sessions.open(await handle.retrieve());
  const input = handle.input<{ text: string }>("messages");
  holds<Same<typeof input, InputStream<{ text: string }>>>();
  const sent = await input.send({ text: "a" }, { correlationId: "c", publicAccessToken: "t" });
  holds<Same<typeof sent, AppendedRecord<{ text: string }>>>();
  const output = handle.output<{ text: string }>("answers");
  const one = await output.read({ cursor: sent.sequence, publicAccessToken: "t" });
  holds<Same<typeof one, StreamRecord<{ text: string }> | null>>();
  for await (const { data, createdAt } of output.subscribe({ publicAccessToken: "t" })) {
    holds<Same<typeof data, { text: string }>>();
    holds<Same<typeof createdAt, Date>>();
  }
  const writer = output.writer();
  holds<Same<typeof writer, StreamWriter<{ text: string }>>>();
  const declared = handle.input(streams.input("messages", { schema }));
  holds<Same<typeof declared, InputStream<{ n?: string }>>>();
  // @ts-expect-error what is declared as output is no input
  handle.input(streams.output("answers"));
  // @ts-expect-error a record of this stream has text
  await input.send({ n: 1 });
  // @ts-expect-error there is no public way to write output
  await output.append({ text: "a" }, { publicAccessToken: "t" });
  // @ts-expect-error a cursor is a sequence
  await output.list({ cursor: "a" });
  // @ts-expect-error a session is named by something
  sessions.open({});
}

export async function credentials(): Promise<void> {
  const key = await idempotencyKeys.create(["a", "b"], { scope: "global" });
  holds<Same<typeof key, IdempotencyKey>>();
  await tasks.trigger(review, { n: "1" }, { idempotencyKey: key, idempotencyKeyTTL: "1d" });
  const made = await auth.createPublicToken({
    scope: { type: "session.input.send", session: { externalId: "x" }, stream: "messages" },
    maxUses: 1,
  });
  holds<Same<typeof made.scope.stream, string | undefined>>();
  await auth.createPublicToken({
    scope: { type: "session.output.read", session: "s", stream: "answers", correlationId: "c" },
  });
  // @ts-expect-error a stream of a session is named by both
  await auth.createPublicToken({ scope: { type: "session.output.read", session: "s" } });
  // @ts-expect-error a token is no session
  await auth.createPublicToken({ scope: { type: "session.input.send", token: "t" } });
  // @ts-expect-error there is no such scope
  await idempotencyKeys.create("a", { scope: "day" });
}

export async function ownWorkspaces(): Promise<void> {
  const { workspace, isCached } = await workspaces.create({ sandboxId: "box", fromVersionId: "v" });
  holds<Same<typeof workspace, WorkspaceSnapshot>>();
  holds<Same<typeof isCached, boolean>>();
  const ws = workspaces.open(workspace);
  holds<Same<typeof ws, WorkspaceHandle>>();
  await ws.files.read("a", { source: "version", versionId: "v", offset: 1 });
  await ws.files.write("a", new Uint8Array(1), { mode: 0o600 });
  const command = await ws.exec(["ls"], { env: { A: "b" }, timeout: "1m" });
  for await (const { data, offsetEnd } of command.stdout.stream({ cursor: 3 })) {
    holds<Same<typeof data, Uint8Array>>();
    holds<Same<typeof offsetEnd, number>>();
  }
  const { exitCode } = await command.wait({ pollIntervalMs: 10 });
  holds<Same<typeof exitCode, number | undefined>>();
  await command.terminate({ signal: "HUP" });
  const terminal = await (await ws.pty.create({ cols: 80 })).attach({ cursor: 0 });
  for await (const bytes of terminal) holds<Same<typeof bytes, Uint8Array>>();
  // @ts-expect-error a workspace is made for a sandbox
  await workspaces.create({});
  // @ts-expect-error a version is named by its id
  await ws.files.read("a", { source: "version" });
  // @ts-expect-error there is no such signal
  await command.terminate({ signal: "STOP" });
  // @ts-expect-error it is deleted by delete
  await ws.update({ state: "deleted" });
}
