import { task } from "@helmr/sdk";
import { box } from "./tasks.ts";

/* What it reads while it is loaded keeps it from being loaded ahead. */
const home = process.env.HOME ?? "";

export const nowImpure = task({
  id: "now-impure",
  sandbox: box,
  run: () => ({ at: Date.now(), home }),
});
