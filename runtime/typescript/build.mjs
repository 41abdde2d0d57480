// Bundles the adapter: few files, because opening one is slow inside a sandbox.
import { build } from "esbuild";
import { mkdir, writeFile } from "node:fs/promises";

const common = {
  bundle: true,
  platform: "node",
  target: "node22.18",
  format: "cjs",
  legalComments: "none",
};

await mkdir("dist", { recursive: true });
await build({
  ...common,
  entryPoints: ["src/main.ts"],
  outfile: "dist/main.js",
  external: ["./build.js"],
});
await build({ ...common, entryPoints: ["src/build/build.ts"], outfile: "dist/build.js" });
/* Without it Node would look for one in every directory above. */
await writeFile("dist/package.json", '{"type":"commonjs"}\n');
