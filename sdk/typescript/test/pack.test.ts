// The package as others get it: packed, installed from the archive alone, type-checked, run.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { TestServer } from "./server.ts";

const source = join(import.meta.dirname, "..");
const project = mkdtempSync(join(tmpdir(), "helmr-pack-"));
const installed = join(project, "node_modules/@helmr/sdk");
const npm = ["--no-audit", "--no-fund", "--offline", "--ignore-scripts"];

const program = `
import { HelmrClient, image, runs, sandbox, task } from "@helmr/sdk";
import type { RunSnapshot, SessionSnapshot, TaskOutput } from "@helmr/sdk";

const greet = task({
  id: "greet",
  sandbox: sandbox("s").image(image("i").from("node:24")),
  run: async ({ name }: { name: string }, ctx) => ({ text: name, run: ctx.run.id }),
});
const client = new HelmrClient({ url: ADDRESS, apiKey: "key" });
const { session, run } = await client.sessions.start(greet, { name: "Ada" }, { tags: ["a"] });
const told: SessionSnapshot = session;
const seen: RunSnapshot<TaskOutput<typeof greet>> = run;
const text: string | undefined = seen.output?.text;
console.log(told.id, text, typeof runs.wait);
// @ts-expect-error the payload's type is the task's
greet.trigger.bind(undefined, { name: 1 });
`;

/* Only what the package itself brings: no types of Node, hence the two words that are used. */
const words = `declare const process: { argv: string[] };
declare const console: { log(...values: unknown[]): void };
`;

const record = {
  id: "id-1",
  session_id: "id-1",
  output: { text: "Ada", run: "r" },
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
};

before(() => {
  execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", project], {
    cwd: source,
  });
  const { version } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  const manifest = { private: true, type: "module" };
  writeFileSync(join(project, "package.json"), JSON.stringify(manifest));
  const archive = join(project, `helmr-sdk-${version}.tgz`);
  execFileSync("npm", ["install", "--silent", ...npm, archive], { cwd: project });
});

after(() => rmSync(project, { recursive: true }));

test("the package has its code, its types, its licence and nothing else, and needs nothing", () => {
  const { dependencies, exports } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  assert.equal(dependencies, undefined);
  assert.deepEqual(exports["."], { types: "./dist/index.d.ts", default: "./dist/index.js" });
  const files = execFileSync("find", [".", "-type", "f"], { cwd: installed, encoding: "utf8" })
    .trim()
    .split("\n");
  for (const name of ["./dist/LICENSE", "./README.md", "./dist/index.js", "./dist/index.d.ts"])
    assert.ok(files.includes(name), `${name} is missing`);
  const known = /\.d\.ts$|^\.\/(dist\/index\.js|dist\/LICENSE|README\.md|package\.json)$/;
  const others = files.filter((name) => !known.test(name));
  assert.deepEqual(others, []);
  const code = readFileSync(join(installed, "dist/index.js"), "utf8");
  assert.doesNotMatch(code, /^import\b|^export\b.*\bfrom\b|\bimport\(|\brequire\(/m);
});

/* With lib "dom" the package's own declarations are checked, too; without it a program has no
 * words for requests and takes them as they are. */
const places = [
  { lib: "es2022", files: ["main.ts", "words.d.ts"], skip: "true", address: 'process.argv[2] ?? ""' },
  { lib: "es2022,dom", files: ["browser.ts"], skip: "false", address: "location.href" },
];

for (const { lib, files, skip, address } of places)
  test(`a project that installed it compiles under strict with the library ${lib}`, () => {
    writeFileSync(join(project, files[0] as string), program.replace("ADDRESS", address));
    writeFileSync(join(project, "words.d.ts"), words);
    const flags = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022"];
    const { status, stdout } = spawnSync(
      "tsc",
      [...flags, "--lib", lib, "--types", "", "--skipLibCheck", skip, ...files],
      { cwd: project, encoding: "utf8" },
    );
    assert.equal(status, 0, stdout);
  });

test("it runs where it was installed", async () => {
  await using server = await TestServer.start((request, response) => {
    assert.deepEqual(request.body, { task_id: "greet", payload: { name: "Ada" }, tags: ["a"] });
    response.writeHead(201, { "content-type": "application/json" });
    response.end(JSON.stringify({ session: record, run: record, is_cached: false }));
  });
  writeFileSync(join(project, "main.ts"), program.replace("ADDRESS", 'process.argv[2] ?? ""'));
  const printed = await new Promise<string>((resolve) => {
    const args = ["--disable-warning=ExperimentalWarning", "main.ts", server.url];
    execFile(process.execPath, args, { cwd: project }, (error, stdout, stderr) =>
      resolve(error ? stderr : stdout),
    );
  });
  assert.equal(printed, "id-1 Ada function\n");
});
