import { image, sandbox, task } from "@helmr/sdk";
import { writeFile } from "node:fs/promises";

export const humanInTheLoop = task({
  id: "human-in-the-loop",
  sandbox: sandbox("human-in-the-loop").image(
    image("human-in-the-loop").from("node:24-bookworm-slim"),
  ),
  maxDuration: "5m",
  run: async (ctx) => {
    const plan = ["Rename the table", "Move the readers", "Drop the old name"];
    console.log(plan.map((step, at) => `${at + 1}. ${step}`).join("\n"));

    // Nobody may answer for days: the run is parked meanwhile and holds no memory.
    const decision = await ctx.wait.human<{ approved: boolean }>({
      displayText: "Is this the right plan?",
      timeout: "7d",
    });
    if (!decision.approved) return { handedOff: false };

    const { text } = await ctx.wait.human<{ text: string }>({
      displayText: "What should whoever takes over know?",
      form: "message",
    });
    await writeFile("handoff.txt", `${[...plan, "", text].join("\n")}\n`);
    return { handedOff: true, file: "handoff.txt" };
  },
});
