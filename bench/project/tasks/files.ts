import * as fs from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";
import { fill, pathOf, type Tree } from "../tree.ts";

const box = sandbox("files")
  .image(image("bench").from("node:24-bookworm-slim"))
  .resources({ cpu: 2, memory: "2GiB", disk: "2GiB" });

export const makeFiles = task({
  id: "make-files",
  sandbox: box,
  maxDuration: "1h",
  run: (tree: Tree, _ctx) => fill(".", tree),
});

export const touchTen = task({
  id: "touch-ten",
  sandbox: box,
  maxDuration: "1h",
  run: ({ files }: Tree, _ctx) => {
    for (let i = 0; i < 10; i++) fs.appendFileSync(pathOf(Math.floor((files * i) / 10)), "// more\n");
  },
});
