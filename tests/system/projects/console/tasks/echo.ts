// Puts one text wherever a task can put text.
import { mkdirSync, writeFileSync } from "node:fs";
import { logger, metadata, streams, task } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

streams.input("words");
const said = streams.output("said");

/** As the name of a file: without what a name cannot have. */
const nameOf = (text: string): string => text.replaceAll(/[/\0]/g, "∕").slice(0, 60);

export const echo = task({
  id: "echo",
  sandbox: small,
  run: async ({ text, fails }: { text: string; fails?: boolean }, ctx) => {
    console.log(text);
    console.error(text);
    logger.info(text, { text });
    await metadata.set("text", text);
    await metadata.set(text.slice(0, 60), "a name");
    await ctx.emit({ type: "text", content: [{ text }] });
    await said.append({ text });
    mkdirSync(`folder-${nameOf(text)}`, { recursive: true });
    writeFileSync(nameOf(text), `${text}\n`);
    writeFileSync(`folder-${nameOf(text)}/inside.txt`, text);
    if (fails) throw Object.assign(new Error(text), { name: nameOf(text) });
    const answer = await ctx.wait.human({ displayText: text, tags: [text.slice(0, 60)] });
    return { text, answer };
  },
});
