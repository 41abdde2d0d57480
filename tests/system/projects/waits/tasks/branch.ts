// What two copies of one program must not have in common.
import { generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { streams, task } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

streams.input("notes");
streams.output("report");

const draw = (): Record<string, string> => ({
  uuid: randomUUID(),
  bytes: randomBytes(16).toString("hex"),
  number: String(Math.random()),
  key: generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" }).x as string,
});

export const branch = task({
  id: "branch",
  sandbox: small,
  run: async (_event: unknown, ctx) => {
    const before = draw();
    writeFileSync("kept.txt", "the same in all\n");
    writeFileSync("decision.txt", "open\n");
    const answer = await ctx.wait.human<{ approved: boolean }>({ displayText: "Which way?" });
    writeFileSync("decision.txt", answer.approved ? "yes\n" : "no\n");
    if (answer.approved) writeFileSync("review.txt", "posted\n");
    const ids = { run: ctx.run.id, session: ctx.session.id, workspace: ctx.workspace.id };
    return { answer, before, after: draw(), ids };
  },
});
