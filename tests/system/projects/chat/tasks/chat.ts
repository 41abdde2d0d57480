// Answers what it is told, a few times in each run; what comes after makes the next one.
import { image, sandbox, streams, task } from "@helmr/sdk";

const small = sandbox("small")
  .image(image("base").from("node:24-bookworm-slim"))
  .resources({ cpu: 1, memory: "512Mi" });

const messages = streams.input<{ n: number; text: string }>("messages");
const answers = streams.output<{ n: number; text: string; turn: number }>("answers");

export const chat = task({
  id: "chat",
  sandbox: small,
  run: async ({ turns }: { turns: number }, ctx) => {
    for (let turn = 1; turn <= turns; turn++) {
      const { n, text } = await messages.wait({ timeout: "10m" }).unwrap();
      await answers.append({ n, text: `heard ${text}`, turn });
    }
    return { turns, run: ctx.run.id };
  },
});
