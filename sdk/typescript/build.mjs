// One file for programs, declarations for editors. One file because every run loads it, and opening
// a file is slow inside a sandbox.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";

rmSync("dist", { recursive: true, force: true });
execFileSync("tsc", ["--project", "tsconfig.build.json"], { stdio: "inherit" });
await build({
  entryPoints: ["src/index.ts"],
  outfile: "dist/index.js",
  bundle: true,
  /* For Node and for browsers: nothing of either may be asked for by name. */
  platform: "neutral",
  target: "es2022",
  format: "esm",
  legalComments: "none",
});
/* The repository has one; whoever gets the package needs it, too. */
copyFileSync("../../LICENSE", "dist/LICENSE");
