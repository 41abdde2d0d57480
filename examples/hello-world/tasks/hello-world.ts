import { image, sandbox, task } from "@helmr/sdk";
import type { StandardSchemaV1 } from "@helmr/sdk";
import { writeFile } from "node:fs/promises";

// Any Standard Schema library does; this one is written by hand so that the example needs none.
const payload: StandardSchemaV1<{ name?: string }> = {
  "~standard": {
    version: 1,
    vendor: "hello-world",
    validate(value) {
      if (value === null || typeof value !== "object" || Array.isArray(value))
        return { issues: [{ message: "must be an object" }] };
      const { name } = value as { name?: unknown };
      if (name !== undefined && typeof name !== "string")
        return { issues: [{ message: "must be a string", path: ["name"] }] };
      return { value: name === undefined ? {} : { name } };
    },
  },
};

export const helloWorld = task({
  id: "hello-world",
  sandbox: sandbox("hello-world").image(image("hello-world").from("node:24-bookworm-slim")),
  maxDuration: "1m",
  payload,
  run: async ({ name = "world" }, ctx) => {
    const greeting = `Hello, ${name}!`;
    console.log(greeting);
    await writeFile("greeting.txt", `${greeting}\n`);
    console.log(`wrote ${ctx.workspace.path}/greeting.txt with Node ${process.versions.node}`);
    return { greeting, file: "greeting.txt" };
  },
});
