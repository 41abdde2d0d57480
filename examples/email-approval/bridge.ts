// Stands between a mailbox and Helmr. Sending and receiving mail is left out:
//   node bridge.ts outbox          the mails that are to be sent, one a line
//   node bridge.ts reply ID yes|no what somebody answered
import { tokens } from "@helmr/sdk";

const [verb, id, word] = process.argv.slice(2);

async function outbox(): Promise<void> {
  const pending = await tokens.list({ status: "pending", limit: 25 });
  for (const token of pending.filter(({ tags }) => tags.includes("email")))
    console.log(`${token.id}\t${token.metadata.to}\t${token.metadata.subject}`);
}

async function reply(): Promise<void> {
  const { status } = await tokens.complete(id as string, { approved: word === "yes" });
  console.log(status);
}

try {
  if (verb === "outbox") await outbox();
  else if (verb === "reply" && id && word) await reply();
  else throw new Error("say what to do: outbox, or reply ID yes|no");
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
