import { image, sandbox, task, tokens } from "@helmr/sdk";
import { writeFile } from "node:fs/promises";

export const emailApproval = task({
  id: "email-approval",
  sandbox: sandbox("email-approval").image(image("email-approval").from("node:24-bookworm-slim")),
  maxDuration: "5m",
  run: async ({ to, subject }: { to: string; subject: string }, _ctx) => {
    // The bridge finds the token by its tag, and in its metadata what to write to whom.
    const token = await tokens.create({
      timeout: "1d",
      tags: ["email"],
      metadata: { to, subject, prompt: subject },
    });
    const answer = await tokens.wait<{ approved: boolean }>(token).unwrap();
    const decision = answer.approved ? "approved" : "refused";
    await writeFile("decision.txt", `${subject}: ${decision} by ${to}\n`);
    return { decision };
  },
});
