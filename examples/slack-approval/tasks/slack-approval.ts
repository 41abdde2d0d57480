import { image, sandbox, streams, task } from "@helmr/sdk";
import { writeFile } from "node:fs/promises";

const approval = streams.input<{ approved: boolean; by: string }>("approval");

export const slackApproval = task({
  id: "slack-approval",
  sandbox: sandbox("slack-approval").image(image("slack-approval").from("node:24-bookworm-slim")),
  maxDuration: "5m",
  run: async ({ message, thread }: { message: string; thread: string }, _ctx) => {
    // The bridge has posted the message; what people answer in its thread comes as records.
    const answer = await approval
      .wait({
        correlationId: thread,
        timeout: "7d",
        tags: ["slack"],
        metadata: { prompt: message, thread },
      })
      .unwrap();
    const decision = `${answer.approved ? "approved" : "refused"} by ${answer.by}`;
    await writeFile("decision.txt", `${decision}\n`);
    return { decision };
  },
});
