// Stands between Slack and Helmr: a slash command starts a session, a button in its thread answers
// it. Slack's own half is left out; what it would call is called from the command line:
//   node bridge.ts ask CHANNEL THREAD MESSAGE
//   node bridge.ts answer THREAD yes|no USER EVENT
//   node bridge.ts cancel THREAD
import { sessions } from "@helmr/sdk";

const [verb, ...words] = process.argv.slice(2);
const externalId = (thread: string): string => `slack-thread-${thread}`;

async function ask([channel, thread, message]: string[]): Promise<string> {
  const { session, isCached } = await sessions.start(
    "slack-approval",
    { message, thread },
    { externalId: externalId(thread as string), tags: [`channel:${channel}`] },
  );
  return `${isCached ? "asked before" : "asked"} in session ${session.id}`;
}

/* Slack sends an event again when it is not answered in time: its id makes that harmless. */
async function answer([thread, word, by, event]: string[]): Promise<string> {
  const approval = sessions.open({ externalId: externalId(thread as string) }).input("approval");
  const { isCached } = await approval.send(
    { approved: word === "yes", by },
    { correlationId: thread as string, idempotencyKey: event as string },
  );
  return isCached ? "answered before" : "answered";
}

async function cancel([thread]: string[]): Promise<string> {
  const { status } = await sessions
    .open({ externalId: externalId(thread as string) })
    .cancel({ reason: "the thread was deleted" });
  return `the session is ${status}`;
}

const verbs: Record<string, (words: string[]) => Promise<string>> = { ask, answer, cancel };
const act = verbs[verb ?? ""];

try {
  if (!act) throw new Error(`say what to do: ${Object.keys(verbs).join(", ")}`);
  console.log(await act(words));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
