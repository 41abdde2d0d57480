// Projects made for one test: a good one, with the files that make it bad put over it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import type { Scope } from "./scope.ts";

interface Variation {
  readonly id?: string;
  readonly from?: string;
  readonly steps?: string;
  readonly sandbox?: string;
  readonly head?: string;
  /** What the task gives back, as an expression. */
  readonly returns?: string;
}

function taskFile(variation: Variation): string {
  const { id = "a", from, steps = "", sandbox = "", head = "", returns = '"fine"' } = variation;
  return `import { image, sandbox, task } from "@helmr/sdk";
${head}
export const ${id} = task({
  id: "${id}",
  sandbox: sandbox("s").image(image("i").from("${from ?? "node:24-bookworm-slim"}")${steps})${sandbox},
  run: async () => ${returns},
});
`;
}

/** A file's content, the ways in which its task is unlike others, or null to leave it out. */
export type Files = Record<string, string | Buffer | Variation | null>;

const good: Files = {
  "package.json": '{ "private": true, "type": "module" }\n',
  "helmr.config.ts":
    'import { defineConfig } from "@helmr/sdk";\n' +
    'export default defineConfig({ project: "main", dirs: ["./tasks"] });\n',
  "tasks/a.ts": {},
};

/** The path of a project that lives as long as the test or suite. */
export function project(t: Scope, files: Files): string {
  const root = mkdtempSync(`${tmpdir()}/helmr-project-`);
  t.after(() => rmSync(root, { recursive: true }));
  for (const [path, content] of Object.entries({ ...good, ...files })) {
    if (content === null) continue;
    mkdirSync(dirname(`${root}/${path}`), { recursive: true });
    const isWhole = typeof content === "string" || Buffer.isBuffer(content);
    writeFileSync(`${root}/${path}`, isWhole ? content : taskFile(content));
  }
  return root;
}
