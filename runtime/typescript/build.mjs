// Bundles the adapter: few files, because opening one is slow inside a sandbox.
import { build } from "esbuild";
import { rmSync, writeFileSync } from "node:fs";

const common = {
  bundle: true,
  platform: "node",
  target: "node22.18",
  format: "cjs",
  legalComments: "none",
  outdir: "dist",
};

rmSync("dist", { recursive: true, force: true });
await build({ ...common, entryPoints: ["src/main.ts"], external: ["./build.js"] });
await build({
  ...common,
  entryPoints: { build: "src/build/build.ts", register: "src/register.ts" },
});
/* `--import` wants a module; the work is in the CommonJS file. */
writeFileSync("dist/register.mjs", 'import "./register.js";\n');
/* Found and loaded as a deployed task is: its own file, its types gone. */
await build({
  entryPoints: ["src/rehearsal/task.ts", "src/rehearsal/part.ts"],
  target: common.target,
  format: "esm",
  outdir: "dist/rehearsal",
  outExtension: { ".js": ".ts" },
});
/* Without it Node would look for one in every directory above. */
writeFileSync("dist/package.json", '{"type":"commonjs"}\n');
