import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Duplex } from "node:stream";
import { test } from "node:test";
import {
  HelmrApiError,
  WorkspaceStreamError,
  WorkspaceStreamTerminalError,
} from "@helmr/sdk";
import type { ProcessChunk } from "@helmr/sdk";
import { bytes, json, sse, TestServer } from "./server.ts";
import type { Answer } from "./server.ts";

/* The warning about plain HTTP on loopback is expected in every test here. */
console.warn = () => undefined;

const at = "2026-01-01T00:00:00.000Z";
const workspace = {
  id: "w1",
  project_id: "p",
  environment_id: "e",
  sandbox_id: "box",
  sandbox_fingerprint: "f",
  deployment_id: "d",
  external_id: null,
  state: "active",
  current_version_id: "v1",
  mount: { id: "m1", state: "mounted" },
  metadata: {},
  tags: ["t"],
  created_at: at,
  updated_at: at,
};

const exec = {
  id: "x1",
  workspace_id: "w1",
  command: ["true"],
  cwd: "/workspace",
  env_shape: ["A"],
  state: "running",
  detached: false,
  stdout_cursor: 0,
  stderr_cursor: 0,
  stdin_cursor: 7,
  created_at: at,
  updated_at: at,
};

const chunk = (start: number, text: string): Record<string, unknown> => ({
  id: `c${start}`,
  stream: "stdout",
  offset_start: start,
  offset_end: start + text.length,
  data: Buffer.from(text).toString("base64"),
  observed_at: at,
  created_at: at,
});

const frame = (start: number, text: string): string =>
  `id: ${start + text.length}\nevent: workspace_stream_chunk\n` +
  `data: ${JSON.stringify(chunk(start, text))}`;
const ending = (event: string, data: object = {}): string =>
  `event: workspace_stream_${event}\ndata: ${JSON.stringify(data)}`;

async function textOf(chunks: AsyncIterable<ProcessChunk>): Promise<string> {
  let text = "";
  for await (const { data } of chunks) text += new TextDecoder().decode(data);
  return text;
}

test("a workspace is created, and its words are those of the package", async () => {
  await using server = await TestServer.start(json(201, { workspace, is_cached: false }));
  const made = await server.client.workspaces.create({
    sandboxId: "box",
    fromVersionId: "v0",
    externalId: "mine",
    tags: ["t"],
    idempotencyKey: "k",
    idempotencyKeyTTL: "1h",
  });
  assert.equal(made.isCached, false);
  assert.deepEqual(made.workspace, {
    id: "w1",
    projectId: "p",
    environmentId: "e",
    sandboxId: "box",
    sandboxFingerprint: "f",
    deploymentId: "d",
    state: "active",
    currentVersionId: "v1",
    mount: { id: "m1", state: "mounted" },
    metadata: {},
    tags: ["t"],
    createdAt: new Date(at),
    updatedAt: new Date(at),
  });
  assert.deepEqual(server.asked[0]?.body, {
    sandbox_id: "box",
    from_version_id: "v0",
    external_id: "mine",
    tags: ["t"],
    idempotency_key: "k",
    idempotency_key_ttl: "3600s",
  });
});

test("everything about one workspace is asked below its path, in its scope", async () => {
  await using server = await TestServer.start(json(200, workspace));
  const scope = { projectId: "p", environmentId: "e" };
  const handle = server.client.workspaces.open("w1", scope);
  await handle.retrieve();
  await handle.update({ state: "archived" });
  await handle.stop({ idempotencyKey: "k" });
  await handle.delete();
  await server.client.workspaces.materialize("w1");
  const base = "/api/projects/p/environments/e/workspaces/w1";
  assert.deepEqual(
    server.asked.map(({ method, url, body }) => [method, url, body]),
    [
      ["GET", base, undefined],
      ["PATCH", base, { state: "archived" }],
      ["POST", `${base}/stop`, { idempotency_key: "k" }],
      ["DELETE", base, undefined],
      ["POST", "/api/workspaces/w1/materialize", {}],
    ],
  );
});

test("a list of files has all of its pages", async () => {
  const entry = (name: string): object => ({
    name,
    path: name,
    type: "file",
    size_bytes: 1,
    mode: 0o644,
    mtime: at,
  });
  await using server = await TestServer.start(
    json(200, { entries: [entry("a")], next_cursor: "n" }),
    json(200, { entries: [entry("b")] }),
  );
  const { files } = server.client.workspaces.open("w1");
  const found = await files.list("src", { source: "version", versionId: "v1", name: "*.ts" });
  assert.deepEqual(
    found.map(({ name, mode }) => [name, mode]),
    [
      ["a", 0o644],
      ["b", 0o644],
    ],
  );
  assert.deepEqual(
    server.asked.map(({ url }) => url),
    [
      "/api/workspaces/w1/files?path=src&source=version&version_id=v1&name=*.ts&limit=500",
      "/api/workspaces/w1/files?path=src&source=version&version_id=v1&name=*.ts&limit=500&cursor=n",
    ],
  );
});

test("files are read and written as bytes, by ranges and as streams", async () => {
  const written = { version_id: "v2", entry: { name: "f", path: "f", type: "file", mtime: at } };
  await using server = await TestServer.start(
    bytes(200, new Uint8Array([0, 255, 7])),
    bytes(206, "part"),
    json(200, written),
    json(200, written),
    bytes(200, "a tar"),
    json(200, { version_id: "v3" }),
  );
  const { files } = server.client.workspaces.open("w1");
  assert.deepEqual(await files.read("f"), new Uint8Array([0, 255, 7]));
  await files.read("f", { source: "live", offset: 10, length: 4 });
  assert.equal((await files.write("f", "text", { mode: 0o755 })).versionId, "v2");
  await files.write("f", new Blob(["of a ", "stream"]).stream());
  assert.equal(await new Response(await files.download("dir")).text(), "a tar");
  assert.deepEqual(await files.upload("dir", "tar"), { versionId: "v3" });
  assert.deepEqual(
    server.asked.map(({ method, url, body, headers }) => [method, url, body, headers.range]),
    [
      ["GET", "/api/workspaces/w1/files/content?path=f", undefined, undefined],
      ["GET", "/api/workspaces/w1/files/content?path=f&source=live", undefined, "bytes=10-13"],
      ["PUT", "/api/workspaces/w1/files/content?path=f&mode=0755", "text", undefined],
      ["PUT", "/api/workspaces/w1/files/content?path=f", "of a stream", undefined],
      ["GET", "/api/workspaces/w1/files/archive?path=dir", undefined, undefined],
      ["PUT", "/api/workspaces/w1/files/archive?path=dir", "tar", undefined],
    ],
  );
  await assert.rejects(files.write("f", "x", { mode: 0o77777 }), /mode/);
});

test("versions are listed, restored and compared", async () => {
  const version = {
    id: "v1",
    workspace_id: "w1",
    parent_id: null,
    kind: "user",
    state: "ready",
    is_current: true,
    size_bytes: 1,
    entries: 2,
    digest: "d",
    created_at: at,
    ready_at: at,
  };
  await using server = await TestServer.start(
    json(200, { versions: [version] }),
    json(200, { version_id: "v2" }),
    json(200, {
      from_version_id: null,
      to_version_id: "v2",
      entries: [{ path: "a", change: "added", type: "file" }],
      next_cursor: "n",
    }),
    json(200, { to_version_id: "v2", entries: [{ path: "b", change: "deleted", type: "file" }] }),
  );
  const handle = server.client.workspaces.open("w1");
  const [found] = await handle.versions.list({ kind: "user", limit: 1 });
  assert.equal(found?.isCurrent, true);
  assert.equal(found && "parentId" in found, false);
  assert.equal(await handle.versions.restore("v1"), "v2");
  const diff = await handle.diff({ patch: true });
  assert.deepEqual(
    diff.entries.map(({ path }) => path),
    ["a", "b"],
  );
  assert.equal(diff.toVersionId, "v2");
  assert.equal(server.asked[3]?.url, "/api/workspaces/w1/diff?from=image&to=v2&patch=1&cursor=n");
});

test("output is followed across broken connections without a byte lost or twice", async () => {
  const cut: Answer = (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`${frame(0, "hello ")}\n\n`, () => response.destroy());
  };
  await using server = await TestServer.start(
    json(201, { exec, is_cached: false }),
    cut,
    /* A server may begin with the chunk that the cursor is in. */
    sse(frame(3, "lo wor"), frame(9, "ld"), ending("terminal", { state: "exited" })),
  );
  const command = await server.client.workspaces.open("w1").exec(["echo", "hello world"]);
  assert.equal(await textOf(command.stdout.stream()), "hello world");
  assert.deepEqual(
    server.asked.slice(1).map(({ url }) => url),
    ["/api/workspaces/w1/execs/x1/stdout", "/api/workspaces/w1/execs/x1/stdout?cursor=6"],
  );
});

test("a stream that cannot go on says which way", async () => {
  const expired = { error: "gone", code: "workspace_stream_cursor_expired", details: { earliest_cursor: 9 } };
  await using server = await TestServer.start(
    sse(frame(0, "a"), ending("lost")),
    sse(ending("error", { code: "workspace_stream_cursor_expired", cursor: 5 })),
    json(410, expired),
  );
  const command = server.client.workspaces.open("w1").execs.open("x1");
  await assert.rejects(textOf(command.stdout.stream()), (error) => {
    assert.ok(error instanceof WorkspaceStreamTerminalError);
    return error.terminal === "lost";
  });
  await assert.rejects(textOf(command.stderr.stream()), (error) => {
    assert.ok(error instanceof WorkspaceStreamError);
    return error.code === "workspace_stream_cursor_expired" && error.cursor === "5";
  });
  await assert.rejects(command.stdout.list({ cursor: 1 }), (error) => {
    assert.ok(error instanceof WorkspaceStreamError);
    return error.cursor === "9";
  });
});

test("what is there is read in pages, and no further", async () => {
  await using server = await TestServer.start(
    json(200, { chunks: [chunk(2, "ab"), chunk(4, "cd")] }),
    json(200, { chunks: [] }),
  );
  const command = server.client.workspaces.open("w1").execs.open("x1");
  assert.equal(await textOf(command.stdout.stream({ cursor: 3, follow: false })), "bcd");
  assert.deepEqual(
    server.asked.map(({ url }) => url),
    [
      "/api/workspaces/w1/execs/x1/stdout?cursor=3",
      "/api/workspaces/w1/execs/x1/stdout?cursor=6",
    ],
  );
});

test("input is written after what is there, and a broken write is not there twice", async () => {
  const conflict = {
    error: "there",
    code: "workspace_stream_offset_conflict",
    details: { cursor: 10 },
  };
  const broken: Answer = (_request, response) => void response.destroy();
  await using server = await TestServer.start(
    json(200, exec),
    broken,
    json(409, conflict),
    json(200, chunk(10, "de")),
    json(409, { ...conflict, details: { cursor: 99 } }),
  );
  const { stdin } = server.client.workspaces.open("w1").execs.open("x1");
  assert.deepEqual(await Promise.all([stdin.write("abc"), stdin.write("de")]), [10, 12]);
  await assert.rejects(stdin.write("f", { offset: 3 }), HelmrApiError);
  assert.deepEqual(
    server.asked.map(({ body }) => (body as { offset?: number } | undefined)?.offset),
    [undefined, 7, 7, 10, 3],
  );
});

test("a command is waited for until it is over", async () => {
  await using server = await TestServer.start(
    json(200, exec),
    json(200, { ...exec, state: "exited", exit_code: 3, exited_at: at }),
    json(200, { ...exec, state: "exited", signal: "KILL" }),
  );
  const command = server.client.workspaces.open("w1").execs.open("x1");
  const ended = await command.wait({ pollIntervalMs: 1 });
  assert.deepEqual([ended.state, ended.exitCode], ["exited", 3]);
  await command.terminate({ signal: "KILL" });
  assert.deepEqual(server.asked[2]?.body, { signal: "KILL" });
});

/* One side of a WebSocket, as far as these tests need it: short frames, none in pieces. */
function talk(socket: Duplex, key: string): { say(data: string | Buffer): void; heard: string[] } {
  const accept = createHash("sha1")
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest("base64");
  const heard: string[] = [];
  socket.write(
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
      `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: helmr.pty.v1\r\n\r\n`,
  );
  socket.on("data", (data: Buffer) => {
    for (let rest = data; rest.length > 0;) {
      const length = (rest[1] as number) & 0x7f;
      const mask = rest.subarray(2, 6);
      const body = rest.subarray(6, 6 + length).map((byte, i) => byte ^ (mask[i % 4] as number));
      heard.push(Buffer.from(body).toString());
      rest = rest.subarray(6 + length);
    }
  });
  const say = (data: string | Buffer): void => {
    const body = Buffer.from(data as string);
    const kind = typeof data === "string" ? 0x81 : 0x82;
    socket.write(Buffer.concat([Buffer.from([kind, body.length]), body]));
  };
  return { say, heard };
}

test("a terminal is attached, used, and ends with its exit code", async () => {
  await using server = await TestServer.start(json(404, { error: "no", code: "not_found" }));
  const asked: string[] = [];
  let heard: string[] = [];
  server.onUpgrade((request, socket) => {
    asked.push(`${request.url} ${request.headers.authorization}`);
    const line = talk(socket, request.headers["sec-websocket-key"] as string);
    heard = line.heard;
    line.say(JSON.stringify({ type: "open", cols: 80, rows: 24, cursor: 5 }));
    line.say(Buffer.from("$ "));
    socket.once("data", () => {
      line.say(Buffer.from("hi"));
      line.say(JSON.stringify({ type: "closed", exit_code: 0, signal: null }));
    });
  });
  const attached = await server.client.workspaces.open("w1").pty.open("t1").attach({ cursor: 5 });
  assert.deepEqual([attached.cols, attached.rows, attached.cursor], [80, 24, 5]);
  attached.write("ls\n");
  let shown = "";
  for await (const piece of attached) shown += new TextDecoder().decode(piece);
  assert.equal(shown, "$ hi");
  assert.equal(attached.cursor, 9);
  assert.deepEqual(attached.closed, { exitCode: 0, signal: null });
  assert.equal(heard[0], "ls\n");
  assert.deepEqual(asked, ["/api/workspaces/w1/pty/t1/attach?cursor=5 Bearer key-1"]);
});

test("a terminal whose connection breaks says from where to go on", async () => {
  await using server = await TestServer.start(json(404, {}));
  server.onUpgrade((request, socket) => {
    const line = talk(socket, request.headers["sec-websocket-key"] as string);
    line.say(JSON.stringify({ type: "open", cols: 80, rows: 24, cursor: 0 }));
    line.say(Buffer.from("abc"));
    setImmediate(() => socket.destroy());
  });
  const attached = await server.client.workspaces.open("w1").pty.open("t1").attach();
  await assert.rejects(
    async () => {
      for await (const _piece of attached) continue;
    },
    (error) => error instanceof WorkspaceStreamError && error.cursor === "3",
  );
});
