// Files of a workspace without a guest: up, down, changed, and refused, by CLI and HTTP.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { api, apiKey, binary, dataDir, deployed, helmr, printed, run, url } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";
import type { Files } from "./lib/project.ts";

const sources: Files = {
  "tasks/a.ts": `import * as fs from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

const box = sandbox("files").image(image("i").from("node:24-bookworm-slim"));

export const breaks = task({
  id: "breaks",
  sandbox: box,
  run: async () => {
    fs.writeFileSync("half.txt", "half\\n");
    throw new Error("no further");
  },
});

export const finds = task({
  id: "finds",
  sandbox: box,
  run: async () => ({
    text: fs.readFileSync("docs/a.txt", "utf8"),
    isLink: fs.lstatSync("docs/link").isSymbolicLink(),
    mode: fs.statSync("docs/tool.sh").mode & 0o777,
  }),
});
`,
};

const deployment = await deployed(project({ after }, sources));
await printed(["deployment", "promote", deployment]);
const place = fs.mkdtempSync(join(tmpdir(), "helmr-files-"));
after(() => fs.rmSync(place, { recursive: true, force: true }));

async function made(): Promise<string> {
  const said = await printed(["workspace", "create", "--sandbox", "files", "--json"]);
  return JSON.parse(said).workspace.id;
}

const files = (...args: string[]): Promise<string> => printed(["workspace", "files", ...args]);
const paths = async (workspace: string, ...more: string[]): Promise<string[]> =>
  JSON.parse(await files("list", workspace, "--recursive", "--json", ...more)).entries.map(
    ({ path }: { path: string }) => path,
  );

function digestOf(file: string): string {
  const hash = createHash("sha256");
  hash.update(fs.readFileSync(file));
  return hash.digest("hex");
}

/** Every path below a folder with what it is: mode and content, or where it points to. */
function shape(folder: string): string[] {
  return (fs.readdirSync(folder, { recursive: true }) as string[]).sort().map((path) => {
    const facts = fs.lstatSync(join(folder, path));
    const mode = (facts.mode & 0o777).toString(8);
    if (facts.isSymbolicLink()) return `${path} -> ${fs.readlinkSync(join(folder, path))}`;
    if (facts.isDirectory()) return `${path}/ ${mode}`;
    return `${path} ${mode} ${Math.floor(facts.mtimeMs)} ${digestOf(join(folder, path))}`;
  });
}

/** A tree like an npm project: folders of small files, some of them links or programs. */
function plant(folder: string, count: number): void {
  for (let i = 0; i < count; i++) {
    const inside = join(folder, `node_modules/p${i % 97}/lib/${i % 7}`);
    fs.mkdirSync(inside, { recursive: true });
    fs.writeFileSync(join(inside, `f${i}.js`), `// ${i}\n`.repeat(1 + (i % 50)), {
      mode: i % 11 === 0 ? 0o755 : 0o644,
    });
    if (i % 100 === 0) fs.symlinkSync(`../f${i}.js`, join(inside, `link${i}`));
  }
  fs.mkdirSync(join(folder, "empty"));
  fs.mkdirSync(join(folder, "ä and ü/" + "long".repeat(40)), { recursive: true });
  fs.writeFileSync(join(folder, "ä and ü/" + "long".repeat(40), "x".repeat(200)), "deep\n");
}

test("a tree of five thousand files goes up and comes down the same", async () => {
  const workspace = await made();
  const up = join(place, "up");
  const down = join(place, "down");
  plant(up, 5000);
  const version = (await files("put", workspace, up, "/")).trim();
  assert.match(version, /^[0-9a-f-]{36}$/);
  await files("get", workspace, "/", down);
  assert.deepEqual(shape(down), shape(up));
  assert.equal((await paths(workspace, "--name", "*.js")).length, 5000);
  assert.deepEqual(await paths(workspace, "--name", "f4242.js"), [
    `node_modules/p${4242 % 97}/lib/${4242 % 7}/f4242.js`,
  ]);
  const tar = spawnSync("tar", ["-tf", "-"], {
    input: spawnSync(binary, ["workspace", "files", "get", workspace, "ä and ü", "-"], {
      env: { ...process.env, HELMR_API_URL: url },
    }).stdout,
  });
  assert.equal(tar.status, 0);
  assert.match(tar.stdout.toString(), /x{200}\n$/);
});

test("a file of 300 MB goes up and comes down byte for byte", async () => {
  const workspace = await made();
  const up = join(place, "large");
  const fd = fs.openSync(up, "w");
  for (let i = 0; i < 300; i++) fs.writeSync(fd, randomBytes(1_000_000));
  fs.closeSync(fd);
  await files("put", workspace, up, "data/large");
  await files("get", workspace, "data/large", join(place, "large.down"));
  assert.equal(digestOf(join(place, "large.down")), digestOf(up));

  const whole = await fetch(`${url}/api/workspaces/${workspace}/files/content?path=data/large`, {
    headers: { Authorization: `Bearer ${apiKey}` },
  });
  assert.equal(whole.status, 413);
  const refusal = (await whole.json()) as { code: string };
  assert.equal(refusal.code, "workspace_file_too_large");
  const part = await fetch(`${url}/api/workspaces/${workspace}/files/content?path=data/large`, {
    headers: { Authorization: `Bearer ${apiKey}`, Range: "bytes=299999990-" },
  });
  assert.equal(part.status, 206);
  assert.equal(part.headers.get("content-range"), "bytes 299999990-299999999/300000000");
  const tail = fs.readFileSync(up).subarray(299_999_990);
  assert.deepEqual(Buffer.from(await part.arrayBuffer()), tail);

  const child = spawn(binary, ["workspace", "files", "put", workspace, "-", "data/piped"], {
    env: { ...process.env, HELMR_API_URL: url },
    stdio: ["pipe", "ignore", "inherit"],
  });
  fs.createReadStream(up).pipe(child.stdin);
  assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
  const [a, b] = await Promise.all(
    ["large", "piped"].map(async (name) => {
      const { headers } = await fetch(
        `${url}/api/workspaces/${workspace}/files/content?path=data/${name}`,
        { method: "GET", headers: { Authorization: `Bearer ${apiKey}`, Range: "bytes=0-0" } },
      );
      return headers.get("etag");
    }),
  );
  assert.equal(a, b);
  fs.rmSync(up);
  fs.rmSync(join(place, "large.down"));
});

test("files are changed one by one, and each change is a version", async () => {
  const workspace = await made();
  const at = (...args: string[]) => files(args[0] as string, workspace, ...args.slice(1));
  const local = join(place, "tool.sh");
  fs.writeFileSync(local, "#!/bin/sh\necho hello\n", { mode: 0o755 });
  const first = (await at("put", local, "bin/")).trim();
  const put = (text: string, path: string) =>
    printed(["workspace", "files", "put", workspace, "-", path], { input: text });
  await put("one\n", "docs/a.txt");
  await at("mkdir", "docs/deep/er");
  await at("mv", "bin/tool.sh", "docs/tool.sh");
  await put("two\n", "docs/a.txt");
  assert.deepEqual(await paths(workspace), [
    "bin",
    "docs",
    "docs/a.txt",
    "docs/deep",
    "docs/deep/er",
    "docs/tool.sh",
  ]);
  assert.equal(await at("read", "docs/a.txt"), "two\n");
  assert.match(await at("stat", "docs/tool.sh"), /Mode: +0755/);
  assert.match(await at("list", "docs"), /^file\t0755\t21\t\S+\ttool\.sh$/m);
  assert.equal((await files("list", workspace, "--version", first, "--recursive")).includes("docs"), false);
  await at("rm", "docs/deep", "--recursive");
  const refused = await helmr(["workspace", "files", "rm", workspace, "docs"]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /not empty \(conflict\)/);
  const missing = await helmr(["workspace", "files", "read", workspace, "docs/no"]);
  assert.match(missing.stderr, /workspace_file_not_found/);
});

test("a run finds what was uploaded, and a failed one leaves a version to look at", async () => {
  const workspace = await made();
  const up = join(place, "for-a-run");
  fs.mkdirSync(join(up, "docs"), { recursive: true });
  fs.writeFileSync(join(up, "docs/a.txt"), "for the run\n");
  fs.writeFileSync(join(up, "docs/tool.sh"), "#!/bin/sh\n", { mode: 0o750 });
  fs.symlinkSync("a.txt", join(up, "docs/link"));
  await files("put", workspace, up, "/");
  const found = await api("/sessions/start-and-wait", {
    method: "POST",
    body: JSON.stringify({ task_id: "finds", workspace_id: workspace, timeout_seconds: 300 }),
  });
  assert.deepEqual(found.body.run?.output, { text: "for the run\n", isLink: true, mode: 0o750 });

  const failed = await run(deployment, "breaks");
  assert.equal(failed.status, "failed");
  const { body } = await api(`/runs/${failed.id}`);
  assert.equal(
    await files("read", body.workspace_id, "half.txt", "--version", body.result_version_id),
    "half\n",
  );
  const current = await helmr(["workspace", "files", "list", body.workspace_id]);
  assert.match(current.stderr, /workspace_no_current_version/);
});

/** A tar with one entry after a good one, as Python writes it. */
function hostile(entry: string): Buffer {
  const script = `
import io, sys, tarfile
out = io.BytesIO()
tar = tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT)
def add(name, data=b"x", **facts):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in facts.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))
add("good.txt")
${entry}
tar.close()
sys.stdout.buffer.write(out.getvalue())
`;
  const made = spawnSync("python3", ["-c", script], { maxBuffer: 1 << 28 });
  assert.equal(made.status, 0, made.stderr.toString());
  return made.stdout;
}

test("nothing of a hostile archive becomes a version", async () => {
  const workspace = await made();
  await printed(["workspace", "files", "put", workspace, "-", "kept.txt"], { input: "kept" });
  const rows: [string, string, number, string][] = [
    ["a way up", 'add("../out")', 400, "archive_invalid"],
    ["an absolute path", 'add("/etc/cron.d/x")', 400, "archive_invalid"],
    ["a device", 'add("null", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3)', 400, "archive_invalid"],
    ["a link between files to the outside", 'add("h", b"", type=tarfile.LNKTYPE, linkname="../../etc/passwd")', 400, "archive_invalid"],
    ["a way through a link", 'add("l", b"", type=tarfile.SYMTYPE, linkname="/etc"); add("l/x")', 409, "workspace_file_not_directory"],
    ["too deep a path", 'add("/".join(["d"] * 200) + "/x")', 400, "archive_invalid"],
    ["too long a name", 'add("n" * 300)', 400, "archive_invalid"],
    ["a size that is not there", 'info = tarfile.TarInfo("big"); info.size = 1 << 40; tar.addfile(info)', 400, "archive_invalid"],
    ["an owner nobody has", 'add("o", uid=-5)', 400, "archive_invalid"],
  ];
  for (const [what, entry, status, code] of rows) {
    const { status: got, body } = await api(`/workspaces/${workspace}/files/archive`, {
      method: "PUT",
      body: new Uint8Array(hostile(entry)),
    });
    assert.deepEqual([got, body.code], [status, code], `${what}: ${JSON.stringify(body)}`);
  }
  const junk = await api(`/workspaces/${workspace}/files/archive`, {
    method: "PUT",
    body: new Uint8Array(randomBytes(100_000)),
  });
  assert.deepEqual([junk.status, junk.body.code], [400, "archive_invalid"]);
  assert.deepEqual(await paths(workspace), ["kept.txt"]);
});

test("a directory that leads out of itself by links is unpacked without following them", async () => {
  const workspace = await made();
  const outside = join(place, "outside");
  fs.mkdirSync(outside);
  const { status } = await api(`/workspaces/${workspace}/files/archive`, {
    method: "PUT",
    body: new Uint8Array(
      hostile(`add("trap", b"", type=tarfile.SYMTYPE, linkname="${outside}"); add("sub/x")`),
    ),
  });
  assert.equal(status, 200);
  const down = join(place, "trapped");
  fs.mkdirSync(down);
  // What is there already must not be a way out either.
  fs.symlinkSync(outside, join(down, "sub"));
  await files("get", workspace, "/", down);
  assert.deepEqual(fs.readdirSync(join(down, "sub")), ["x"]);
  assert.equal(fs.readlinkSync(join(down, "trap")), outside);
  assert.deepEqual(fs.readdirSync(outside), []);
});

test("a missing part of the store is said to be that", async () => {
  const workspace = await made();
  const bytes = randomBytes(2_000_000);
  const { status } = await api(`/workspaces/${workspace}/files/content?path=noise`, {
    method: "PUT",
    body: new Uint8Array(bytes),
  });
  assert.equal(status, 200);
  const store = join(dataDir, "store");
  const newest = (fs.readdirSync(store, { recursive: true }) as string[])
    .map((path) => join(store, path))
    .filter((path) => fs.statSync(path).isFile() && fs.statSync(path).size > 1_900_000)
    .sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs)[0] as string;
  const good = fs.readFileSync(newest);
  const bad = Buffer.from(good);
  bad[1_000_000] = (bad[1_000_000] as number) ^ 1;
  try {
    fs.writeFileSync(newest, bad);
    const read = await helmr(["workspace", "files", "read", workspace, "noise"]);
    assert.equal(read.code, 1);
    assert.match(read.stderr, /damaged/);
  } finally {
    fs.writeFileSync(newest, good);
  }
  const again = await fetch(`${url}/api/workspaces/${workspace}/files/content?path=noise`, {
    headers: { Authorization: `Bearer ${apiKey}` },
  });
  assert.deepEqual(Buffer.from(await again.arrayBuffer()), bytes);
});

test("what a mounted sandbox has right now is read from it, and a change waits for its end", async () => {
  const workspace = await made();
  const { status, body } = await api(`/workspaces/${workspace}/execs`, {
    method: "POST",
    body: JSON.stringify({
      command: ["sh", "-c", "mkdir -p deep && seq 1 200000 > deep/numbers && ln -s numbers deep/link"],
    }),
  });
  assert.equal(status, 201, JSON.stringify(body));
  await printed(["workspace", "exec", "wait", workspace, body.exec.id]);
  assert.match(await files("list", workspace, "deep", "--live"), /symlink\t0777\t\d+\t\S+\tlink -> numbers\n/);
  const numbers = spawnSync("seq", ["1", "200000"], { maxBuffer: 1 << 24 }).stdout.toString();
  assert.equal(await files("read", workspace, "deep/numbers", "--live"), numbers);
  const missing = await helmr(["workspace", "files", "stat", workspace, "nothing", "--live"]);
  assert.match(missing.stderr, /workspace_file_not_found/);
  await printed(["workspace", "files", "put", workspace, "-", "note"], { input: "later\n" });
  assert.deepEqual(await paths(workspace), ["deep", "deep/link", "deep/numbers", "note"]);
  const gone = await helmr(["workspace", "files", "list", workspace, "--live"]);
  assert.match(gone.stderr, /workspace_not_mounted/);
});
