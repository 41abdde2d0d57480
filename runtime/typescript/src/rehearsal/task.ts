// The task of a rehearsal. It imports what most tasks begin with: the SDK by its name, and a file
// beside it by the name that a compiler would give it.
import { image, sandbox, task } from "@helmr/sdk";
import { greeting } from "./part.js";

const place = sandbox("rehearsal").image(image("rehearsal").from("node:24-bookworm-slim"));

export const rehearsal = task({
  id: "rehearsal",
  sandbox: place,
  run: async (payload: { name: string }, context) => ({ message: greeting(payload), run: context.run.id }),
});
