import { image, sandbox, task } from "@helmr/sdk";
import { rename, writeFile } from "node:fs/promises";

interface Answer {
  approved: boolean;
  /** Replaces the draft. */
  text?: string;
}

export const releaseNotes = task({
  id: "release-notes",
  sandbox: sandbox("approval").image(image("approval").from("node:24-bookworm-slim")),
  maxDuration: "5m",
  run: async (event: { version: string; changes: string[] }, ctx) => {
    const draft = [`# ${event.version}`, "", ...event.changes.map((change) => `- ${change}`)];
    await writeFile("draft.md", `${draft.join("\n")}\n`);
    console.log(draft.join("\n"));

    // Nobody may answer for days: the run is parked meanwhile and holds no memory.
    const answer = await ctx.wait.human<Answer>({
      displayText: `Publish these notes for ${event.version}?`,
      timeout: "7d",
    });

    if (!answer.approved) return { published: false };
    if (answer.text !== undefined) await writeFile("draft.md", answer.text);
    await rename("draft.md", "RELEASE_NOTES.md");
    return { published: true, file: "RELEASE_NOTES.md" };
  },
});
