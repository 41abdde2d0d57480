// Puts texts wherever a task can put text.
import { mkdirSync, writeFileSync } from "node:fs";
import { logger, metadata, streams, task } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

streams.input("words");
const said = streams.output("said");

/** As the name of a file: without what a name cannot have. */
const nameOf = (text: string): string => text.replaceAll(/[/\0]/g, "_").slice(0, 60);

export const echo = task({
  id: "echo",
  sandbox: small,
  run: async ({ texts, fails }: { texts: string[]; fails?: boolean }, ctx) => {
    const all = texts.join("\n");
    await metadata.set("texts", texts);
    await metadata.patch(Object.fromEntries(texts.map((text) => [nameOf(text), text])));
    await ctx.emit({ type: "text", content: texts });
    await said.append({ texts });
    for (const text of texts) {
      console.log(text);
      console.error(text);
      logger.info(text, { text });
      writeFileSync(nameOf(text), `${text}\n`);
      mkdirSync(`folder-${nameOf(text)}`, { recursive: true });
      writeFileSync(`folder-${nameOf(text)}/inside.txt`, text);
    }
    if (fails) throw Object.assign(new Error(all), { name: nameOf(all) });
    const tags = texts.map((text) => text.slice(0, 40)).slice(0, 5);
    const answer = await ctx.wait.human({ displayText: all, tags, metadata: { texts } });
    return { texts, answer };
  },
});
