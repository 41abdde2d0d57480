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
  run: async ({ texts }: { texts: string[] }, _ctx) => {
    for (const folder of ["notes", "odd"]) mkdirSync(folder, { recursive: true });
    writeFileSync("notes/one.txt", "first line\nsecond line\n");
    for (const [i, text] of texts.entries()) {
      writeFileSync(`odd/${i} ${text.replaceAll("/", "|").slice(0, 120)}`, `${text}\n`);
      await answers.append(text);
    }
    const heard = await questions.wait({ timeout: "10m" }).unwrap();
    await answers.append({ text: `heard ${JSON.stringify(heard)}` });
    writeFileSync("notes/one.txt", "first line\nanother line\n");
    return heard;
  },
});
