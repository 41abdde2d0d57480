// Writes files with names of all kinds, says something, and answers whatever it is told.
import { mkdirSync, writeFileSync } from "node:fs";
import { image, sandbox, streams, task } from "@helmr/sdk";

const small = sandbox("talking")
  .image(image("plain").from("node:24-bookworm-slim"))
  .resources({ cpu: 1, memory: "512Mi" });

const questions = streams.input<unknown>("questions");
const answers = streams.output<unknown>("answers");

export const talk = task({
  id: "talk",
  sandbox: small,
  run: async ({ say }: { say: string }, _ctx) => {
    mkdirSync("notes", { recursive: true });
    writeFileSync("notes/one.txt", "first line\nsecond line\n");
    writeFileSync("<img src=x onerror=window.hit=1>.txt", `${say}\n`);
    await answers.append(say);
    const heard = await questions.wait({ timeout: "10m" }).unwrap();
    await answers.append({ text: `heard ${JSON.stringify(heard)}` });
    writeFileSync("notes/one.txt", "first line\nanother line\n");
    return heard;
  },
});
