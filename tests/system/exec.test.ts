// Commands in a workspace without a run: what goes in, what comes out, and how they end.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { before, suite, test } from "node:test";
import { patience } from "./lib/engine.ts";
import { Commands, frames, json } from "./lib/exec.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const files = {
  "tasks/a.ts": `import { image, sandbox, task } from "@helmr/sdk";

const base = image("i").from("node:24-bookworm-slim").env("COLOUR", "blue");
export const a = task({
  id: "a",
  sandbox: sandbox("box").image(base),
  run: async (payload: { ms: number }, _ctx) => void (await new Promise((done) => setTimeout(done, payload.ms))),
});
export const b = task({
  id: "b",
  sandbox: sandbox("small").image(base).resources({ memory: 256 }),
  run: async () => 0,
});
`,
};

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

suite("commands", () => {
  const scope = declaredScope();
  let own: Own;
  let box: Commands;

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WORKSPACE_IDLE_TIMEOUT: "2m" } });
    const made = await own.deployedWell(project(scope, files));
    await own.printed(["deployment", "promote", made.id]);
    box = await Commands.create(own, "box");
  });

  test("say what they print and how they end", async () => {
    const ended = await box.sh("echo out; echo err >&2; exit 7");
    assert.deepEqual(
      [ended.state, ended.exit_code, ended.signal, ended.out, ended.err],
      ["exited", 7, undefined, "out\n", "err\n"],
    );
    assert.equal((await box.run(["true"])).exit_code, 0);
    assert.equal((await box.sh("kill -9 $$")).signal, "KILL");
  });

  test("that are not there fail with a reason", async () => {
    const { state, error } = await box.run(["no-such-command"]);
    assert.equal(state, "failed");
    assert.match(error ?? "", /no-such-command: No such file/);
    const lost = await box.run(["true"], { cwd: "/nowhere" });
    assert.equal(lost.state, "failed");
    assert.match(lost.error ?? "", /\/nowhere/);
  });

  test("run where and with what they are told to", async () => {
    const plain = await box.sh("pwd; echo $COLOUR; echo ${HOME}");
    assert.equal(plain.out, "/workspace\nblue\n/root\n");
    const told = await box.sh('pwd; echo "$COLOUR $WORD"', { cwd: "/tmp", env: { COLOUR: "red", WORD: "a b" } });
    assert.equal(told.out, "/tmp\nred a b\n");
    assert.equal((await box.sh("env")).out.includes("HELMR_"), false);
  });

  test("give binary output unchanged", async () => {
    const { out, id } = await box.run([
      "node",
      "-e",
      "process.stdout.write(Buffer.from(Array.from({ length: 100000 }, (_, i) => i % 256)))",
    ]);
    assert.ok(out.length > 0);
    const bytes = await box.output(id);
    assert.equal(bytes.length, 100_000);
    assert.ok(bytes.every((byte, i) => byte === i % 256));
  });

  test("take 50 MB of input through a pipe, byte for byte", { timeout: patience(600_000) }, async () => {
    const sent = randomBytes(50_000_000);
    const child = spawn(own.place.binary, ["workspace", "exec", box.id, "--", "cat"], {
      env: { ...process.env, ...own.place.env, HELMR_API_URL: own.place.url },
      stdio: ["pipe", "pipe", "inherit"],
    });
    child.stdin.on("error", () => {});
    child.stdin.end(sent);
    const got: Buffer[] = [];
    for await (const piece of child.stdout) got.push(piece as Buffer);
    const code = child.exitCode ?? (await new Promise((resolve) => child.once("exit", resolve)));
    assert.equal(code, 0);
    assert.equal(sha256(Buffer.concat(got)), sha256(sent));
  });

  test("see each other, and what one leaves behind goes on", async () => {
    const sleeper = await box.start(["sleep", "1000"], { detached: true });
    await box.running(sleeper.id);
    const seen = await box.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    assert.match(seen.out, /sleep 1000/);
    assert.equal((await box.sh("sleep 2000 & echo left")).out, "left\n");
    assert.match((await box.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).out, /sleep 2000/);
    const { status } = await box.api(`/execs/${sleeper.id}/terminate`, {});
    assert.equal(status, 200);
    const ended = await box.wait(sleeper.id);
    assert.deepEqual([ended.state, ended.signal], ["exited", "TERM"]);
  });

  test("are ended by a signal and by their time", async () => {
    const stubborn = await box.start(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]);
    await box.running(stubborn.id);
    await box.api(`/execs/${stubborn.id}/terminate`, { signal: "KILL" });
    assert.equal((await box.wait(stubborn.id)).signal, "KILL");
    const late = await box.run(["sleep", "1000"], { timeout: "1s" });
    assert.equal(late.state, "exited");
    assert.equal(late.signal, "TERM");
  });

  test("a thousand of them leave nothing", { timeout: patience(600_000) }, async () => {
    const ids: string[] = [];
    const lanes = Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 125; i++) ids.push((await box.start(["true"])).id);
    });
    await Promise.all(lanes);
    for (const id of ids) {
      const { state, exit_code } = await box.wait(id);
      assert.deepEqual([state, exit_code], ["exited", 0]);
    }
    const { out } = await box.sh("ls -d /proc/[0-9]* | wc -l");
    assert.ok(Number(out) < 12, `${out} processes are left`);
  });

  test("lose no byte while the server is restarted", { timeout: patience(300_000) }, async () => {
    const writer = await box.start(["sh", "-c", "for i in $(seq 1 3000); do echo line $i; done; sleep 3; echo end"]);
    await box.running(writer.id);
    await own.server.end("SIGKILL");
    own.server.start();
    await until("a ready server", async () => {
      try {
        return (await fetch(`${own.place.url}/readyz`)).ok;
      } catch {
        return false;
      }
    });
    assert.equal((await box.wait(writer.id)).exit_code, 0);
    const wanted = Array.from({ length: 3000 }, (_, i) => `line ${i + 1}\n`).join("") + "end\n";
    assert.equal((await box.output(writer.id)).toString(), wanted);
  });

  test("keep runs out of their workspace, and runs keep them out", async () => {
    await box.run(["true"]);
    const started = (workspace: string, ms: number) =>
      own.api("/sessions", json({ task_id: "a", payload: { ms }, workspace_id: workspace }));
    const refused = await started(box.id, 0);
    assert.deepEqual([refused.status, refused.body?.code], [409, "workspace_writer_active"]);
    await box.stop();
    const taken = await started(box.id, 20_000);
    assert.equal(taken.status, 201, JSON.stringify(taken.body));
    const { status, body } = await box.api("/execs", { command: ["true"] });
    assert.deepEqual([status, body.code], [409, "workspace_writer_active"]);
    await own.api(`/runs/${taken.body.run.id}/cancel`, json({}));
  });

  test("leave their changes as a version when the workspace is stopped", async () => {
    const kept = await Commands.create(own, "box");
    await kept.sh("mkdir d; echo one > d/file; ln -s file d/link");
    await kept.stop();
    const { body } = await kept.api("/versions");
    assert.equal(body.versions.length, 1);
    assert.equal(body.versions[0].kind, "user");
    const again = await kept.sh("cat d/link; echo two > d/file");
    assert.equal(again.out, "one\n");
    await kept.stop();
    assert.equal((await kept.api("/versions")).body.versions.length, 2);
    assert.equal((await kept.sh("cat d/file")).out, "two\n");
    await kept.stop();
  });

  test("stream their end as soon as it is known", async () => {
    const streamed = await Commands.create(own, "box");
    const { id } = await streamed.start(["sh", "-c", "echo one; exit 3"]);
    const seen: string[] = [];
    for await (const { event, data } of frames(own, `/workspaces/${streamed.id}/execs/${id}/stdout`)) {
      seen.push(event);
      if (event === "workspace_stream_terminal") assert.equal(data.exit_code, 3);
    }
    assert.deepEqual([...new Set(seen)], ["workspace_stream_chunk", "workspace_stream_terminal"]);
    await streamed.stop();
  });

  test("that take all memory are killed, and it is said", { timeout: patience(300_000) }, async (t) => {
    const small = await Commands.create(own, "small");
    const hog = "const all = []; for (;;) all.push(Buffer.alloc(16777216, 1));";
    const ended = await small.run(["node", "-e", hog]);
    if (ended.state === "exited" && ended.signal === undefined && ended.exit_code !== 137)
      return t.skip(`node ended by itself with ${ended.exit_code}`);
    assert.match(ended.error ?? "", /memory/, JSON.stringify(ended));
  });

  test("of a worker that is killed are lost, and the next mount goes on", { timeout: patience(300_000) }, async () => {
    const unlucky = await Commands.create(own, "box");
    await unlucky.sh("echo kept > file");
    await unlucky.stop();
    const sleeper = await unlucky.start(["sleep", "1000"]);
    await unlucky.running(sleeper.id);
    const worker = own.workers[0];
    assert.ok(worker);
    await worker.end("SIGKILL");
    worker.start();
    await own.active();
    assert.equal((await unlucky.wait(sleeper.id)).state, "lost");
    assert.equal((await unlucky.sh("cat file")).out, "kept\n");
    assert.equal((await unlucky.api("")).body.state, "active");
    await unlucky.stop();
  });

  test("leave nothing on the host", async () => {
    await own.stopClean();
  });
});

suite("an idle workspace", () => {
  const scope = declaredScope();

  test("is captured and unmounted", { timeout: patience(300_000) }, async () => {
    const own = await startOwn(scope, { env: { HELMR_WORKSPACE_IDLE_TIMEOUT: "2s" } });
    const made = await own.deployedWell(project(scope, files));
    await own.printed(["deployment", "promote", made.id]);
    const box = await Commands.create(own, "box");
    await box.sh("echo kept > file");
    await box.unmounted();
    assert.equal((await box.api("/versions")).body.versions.length, 1);
    assert.equal((await box.sh("cat file")).out, "kept\n");
    await own.stopClean();
  });
});
