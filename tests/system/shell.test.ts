// Terminals and ports of workspaces, as people use them: full-screen programs on a real terminal,
// connections that break, several at one terminal, and programs that listen.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { get } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import type { TestContext } from "node:test";
import { Wire } from "./lib/cut.ts";
import { apiKey, binary, deployed, helmr, printed, url } from "./lib/helmr.ts";
import { until } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";
import { Screen } from "./lib/tmux.ts";

const files = {
  "tasks/a.ts": `import { image, sandbox, task } from "@helmr/sdk";

const made = image("shell")
  .from("node:24-bookworm-slim")
  .run(["sh", "-c", "apt-get update && apt-get install -y --no-install-recommends vim-tiny htop tmux && " +
    "rm -rf /var/lib/apt/lists/*"]);
const box = sandbox("shell").image(made).network({ ports: [3000, 3001] });
export const nothing = task({ id: "nothing", sandbox: box, run: async () => null });
`,
};

const scope = declaredScope();
let workspace = "";

before(async () => {
  const id = await deployed(project(scope, files));
  const made = await printed(["workspace", "create", "--sandbox", "shell", "--deployment", id]);
  workspace = /^workspace_id: *(\S+)/m.exec(made)?.[1] as string;
});

after(async () => {
  if (workspace) await printed(["workspace", "stop", workspace]);
});

const exec = (...command: string[]): Promise<string> =>
  printed(["workspace", "exec", workspace, "--", ...command]);

const env = { HELMR_API_URL: url, HELMR_API_KEY: apiKey };

const shell = (t: TestContext, ...more: string[]): Screen =>
  new Screen(t, [binary, "workspace", "shell", workspace, ...more], { env });

/** The id of the newest terminal. */
async function newest(): Promise<string> {
  const list = await printed(["workspace", "pty", "list", workspace, "--jsonl"]);
  return JSON.parse(list.split("\n")[0] as string).id;
}

test("a shell has the size of the terminal, follows it, and ends with its code", async (t) => {
  const screen = shell(t);
  await screen.shows(/^[#$]/m);
  screen.enter("stty size; echo $TERM; pwd");
  await screen.shows(/^30 100\nxterm-256color\n\/workspace$/m);
  screen.resize(72, 20);
  screen.enter("clear; stty size");
  await screen.shows(/^20 72$/m);
  screen.enter("printf '\\033[38;2;10;200;30mgreen\\033[0m plain\\n'");
  await screen.shows(/^green plain$/m);
  assert.match(screen.coloured, /38;2;10;200;30mgreen/);
  screen.enter("echo as''leep; sleep 1000");
  await screen.shows(/^asleep$/m);
  screen.press("C-c");
  await screen.shows(/\^C/);
  screen.enter("echo code=$?");
  await screen.shows(/code=130$/m);
  screen.enter("exit 7");
  await screen.shows(/^\[code 7\]$/m);
});

test("vim, htop and tmux can be used", async (t) => {
  const screen = shell(t);
  await screen.shows(/^[#$]/m);

  screen.enter("vi letter.txt");
  await screen.shows(/letter\.txt/);
  screen.type("ifirst line");
  screen.press("Enter");
  screen.type("second line");
  await screen.shows(/^second line$/m);
  screen.press("Escape");
  screen.enter(":wq");
  await screen.shows(/[#$] vi letter/);
  assert.equal(await exec("cat", "letter.txt"), "first line\nsecond line\n");

  screen.enter("htop");
  await screen.shows(/Load average/);
  await screen.shows(/F10Quit/);
  screen.resize(90, 24);
  await screen.shows(/F10Quit/);
  screen.press("q");
  await screen.shows(/[#$] htop/);

  screen.enter("tmux -f /dev/null new -s inner");
  await screen.shows(/\[inner\] 0:/);
  screen.enter("echo in$((40+2))side");
  await screen.shows(/^in42side$/m);
  screen.press("C-b", "%");
  await screen.shows(/[x│]root@/);
  screen.press("C-b", "d");
  await screen.shows(/detached \(from session inner\)/);
  screen.enter("exit");
  await screen.shows(/^\[code 0\]$/m);
});

test("the connection is cut in the middle of output, and not a byte is lost or doubled", async (t) => {
  const folder = mkdtempSync(`${tmpdir()}/helmr-shell-`);
  t.after(() => rmSync(folder, { recursive: true }));
  const wire = new Wire();
  const port = await wire.lead(t, Number(new URL(url).port));
  const command = `${binary} workspace shell ${workspace}`;
  const screen = new Screen(
    t,
    ["script", "--quiet", "--flush", "--return", "--log-out", `${folder}/log`, "--command", command],
    { env: { HELMR_API_URL: `http://127.0.0.1:${port}`, HELMR_API_KEY: apiKey } },
  );
  await screen.shows(/^[#$]/m);

  let cuts = 0;
  let next = wire.received + 100_000;
  wire.onReceived = () => {
    if (cuts === 6 || wire.received < next) return;
    cuts++;
    next = wire.received + 100_000;
    wire.cut();
  };
  screen.enter("echo be''gin; seq 1 200000; echo e''nd");
  const log = (): string => readFileSync(`${folder}/log`, "latin1");
  await until("the end of the output", () => /^end\r$/m.test(log()));
  assert.equal(cuts, 6);
  const between = /begin\r\n([^]*?)end\r\n/.exec(log())?.[1] as string;
  const wanted = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\r\n`).join("");
  assert.equal(between.length, wanted.length);
  assert.ok(between === wanted);

  /* Keys that are typed while nothing gets through arrive afterwards, once. */
  wire.isDown = true;
  screen.enter("echo typed-$((6*7)) >> keys.txt");
  wire.isDown = false;
  await until("the typed line", async () => (await helmr(["workspace", "exec", workspace, "--", "cat", "keys.txt"])).code === 0);
  assert.equal(await exec("cat", "keys.txt"), "typed-42\n");
  screen.enter("exit");
  await screen.shows(/^\[code 0\]$/m);
});

test("one detaches and comes back, and two see the same", async (t) => {
  const first = shell(t);
  await first.shows(/^[#$]/m);
  first.enter("counted=41");
  first.type("~?");
  await first.shows(/~\. detaches/);
  first.type("~.");
  await first.shows(/to come back: helmr workspace shell/);
  await first.shows(/^\[code 0\]$/m);

  const pty = await newest();
  const again = shell(t, "--pty", pty);
  await again.shows(/counted=41/);
  again.enter("echo $((counted+1))");
  await again.shows(/^42$/m);

  const second = new Screen(t, [binary, "workspace", "pty", "connect", workspace, pty], { env });
  await second.shows(/^42$/m);
  second.enter("echo both-of-us");
  await again.shows(/^both-of-us$/m);
  await second.shows(/^both-of-us$/m);
  again.enter("exit 3");
  await again.shows(/^\[code 3\]$/m);
  await second.shows(/^\[code 3\]$/m);
});

test("a terminal is left as it was, whatever ends the command", async (t) => {
  const folder = mkdtempSync(`${tmpdir()}/helmr-shell-`);
  t.after(() => rmSync(folder, { recursive: true }));
  const line = `stty -a >${folder}/before
    sh -c 'echo $$ >${folder}/pid; exec ${binary} workspace shell ${workspace}'
    stty -a | cmp ${folder}/before - && echo as it was`;
  for (const signal of ["SIGTERM", "SIGHUP", "SIGSEGV"] as const) {
    const screen = new Screen(t, ["sh", "-c", line], { env });
    await screen.shows(/^[#$]/m);
    screen.enter("vi some.txt");
    await screen.shows(/some\.txt/);
    process.kill(Number(readFileSync(`${folder}/pid`, "utf8")), signal);
    await screen.shows(/^as it was$/m);
  }
});

test("without a terminal it says so", async () => {
  const { code, stderr } = await helmr(["workspace", "shell", workspace]);
  assert.equal(code, 1);
  assert.match(stderr, /needs a terminal/);
});

interface Heard {
  readonly texts: any[];
  bytes: string;
  closed?: number;
}

/** A WebSocket as browsers have them. */
function listen(path: string, protocol: string): Promise<{ socket: WebSocket; heard: Heard }> {
  const target = `${url.replace(/^http/, "ws")}${path}`;
  const options = { protocols: [protocol], headers: { authorization: `Bearer ${apiKey}` } };
  const socket = new WebSocket(target, options as unknown as string[]);
  const heard: Heard = { texts: [], bytes: "" };
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => {
    if (typeof data === "string") heard.texts.push(JSON.parse(data));
    else heard.bytes += Buffer.from(data).toString("latin1");
  };
  socket.onclose = ({ code }) => (heard.closed = code);
  return new Promise((resolve, reject) => {
    socket.onopen = () => resolve({ socket, heard });
    socket.onerror = () => reject(new Error("it did not open"));
  });
}

test("a terminal is a WebSocket to any other client", async () => {
  const made = await printed(["workspace", "pty", "create", workspace, "--cols", "60", "--rows", "10"]);
  const pty = /^pty_id: *(\S+)/m.exec(made)?.[1] as string;
  const path = `/api/workspaces/${workspace}/pty/${pty}/attach`;
  const { socket, heard } = await listen(path, "helmr.pty.v1");
  assert.equal(socket.protocol, "helmr.pty.v1");
  socket.send(new TextEncoder().encode("stty size; exit 5\r"));
  await until("its end", () => heard.closed !== undefined);
  assert.deepEqual(heard.texts[0], { type: "open", cols: 60, rows: 10, cursor: 0 });
  assert.match(heard.bytes, /10 60\r\n/);
  assert.deepEqual(heard.texts.at(-1), { type: "closed", exit_code: 5, signal: null });
  assert.equal(heard.closed, 1000);

  const later = await listen(`${path}?cursor=4`, "helmr.pty.v1");
  await until("its end", () => later.heard.closed !== undefined);
  assert.equal(later.heard.bytes, heard.bytes.slice(4));
  await assert.rejects(listen(path, "helmr.pty.v2"));
});

/** `workspace forward` on any port; the port. */
async function forward(t: TestContext, port: number): Promise<{ local: number; said: () => string }> {
  const child = spawn(binary, ["workspace", "forward", workspace, `0:${port}`], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (text) => (said += text));
  t.after(() => child.kill("SIGKILL"));
  await until("a listener", () => /forwarding/.test(said));
  return { local: Number(/127\.0\.0\.1:(\d+)/.exec(said)?.[1]), said: () => said };
}

const server = `
const http = require("node:http"), net = require("node:net");
http.createServer((req, res) => {
  if (req.url === "/large") { for (let i = 0; i < 80; i++) res.write(Buffer.alloc(65536, i)); res.end(); return; }
  let n = 0;
  req.on("data", (d) => (n += d.length));
  req.on("end", () => res.end(req.method + " " + req.url + " " + n));
}).on("upgrade", (req, socket) => {
  const { createHash } = require("node:crypto");
  const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const accept = createHash("sha1").update(req.headers["sec-websocket-key"] + guid).digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n" +
    "Sec-WebSocket-Protocol: reload\\r\\nSec-WebSocket-Accept: " + accept + "\\r\\n\\r\\n");
  const say = (kind, bytes) => {
    const head = Buffer.alloc(bytes.length < 126 ? 2 : 10);
    head[0] = 0x80 | kind;
    head[1] = bytes.length < 126 ? bytes.length : 127;
    if (bytes.length > 125) head.writeBigUInt64BE(BigInt(bytes.length), 2);
    socket.write(Buffer.concat([head, bytes]));
  };
  say(1, Buffer.from(JSON.stringify([req.url, req.headers.origin, req.headers.cookie ?? ""])));
  let all = Buffer.alloc(0);
  socket.on("error", () => {}).on("data", (piece) => {
    all = Buffer.concat([all, piece]);
    for (;;) {
      const short = all.length > 1 ? all[1] & 127 : 0;
      const at = short === 127 ? 10 : short === 126 ? 4 : 2;
      if (all.length < at) return;
      const len = short === 127 ? Number(all.readBigUInt64BE(2)) : short === 126 ? all.readUInt16BE(2) : short;
      if (all.length < at + 4 + len) return;
      const bytes = Buffer.from(all.subarray(at + 4, at + 4 + len));
      for (let i = 0; i < len; i++) bytes[i] ^= all[at + (i % 4)];
      say(all[0] & 15, bytes);
      if ((all[0] & 15) === 8) socket.end();
      all = all.subarray(at + 4 + len);
    }
  });
}).listen(3000, "127.0.0.1", () => console.log("ready"));
net.createServer({ allowHalfOpen: true }, (s) => {
  let all = "";
  s.on("data", (d) => (all += d)).on("end", () => s.end("heard " + all));
}).listen(3001, "127.0.0.1");
`;

const fetched = (port: number, path: string): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    get({ port, path, host: "127.0.0.1", agent: false }, (answer) => {
      const pieces: Buffer[] = [];
      answer.on("data", (piece) => pieces.push(piece)).on("end", () => resolve(Buffer.concat(pieces)));
      answer.on("error", reject);
    }).on("error", reject);
  });

const large = Buffer.concat(Array.from({ length: 80 }, (_, i) => Buffer.alloc(65_536, i)));
const digest = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** The server above, inside; its id. */
async function serve(t: TestContext): Promise<string> {
  const started = await printed(["workspace", "exec", workspace, "--detach", "--", "node", "-e", server]);
  const id = /^exec_id: *(\S+)/m.exec(started)?.[1] as string;
  t.after(() => helmr(["workspace", "exec", "kill", workspace, id, "--signal", "KILL"]));
  await until("a server inside", async () =>
    /ready/.test((await helmr(["workspace", "exec", "logs", workspace, id])).stdout),
  );
  return id;
}

test("a port of the sandbox is seen in a browser that has a link", async (t) => {
  const id = await serve(t);
  const link = (await printed(["workspace", "preview", workspace, "3000"])).trim();
  const opened = await fetch(link, { redirect: "manual" });
  assert.equal(opened.status, 303);
  const place = new URL(opened.headers.get("location") as string, link);
  const cookie = opened.headers.get("set-cookie")?.split(";")[0] as string;
  const seen = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(new URL(path, place), { ...init, headers: { cookie } });
  assert.equal(await (await seen("hello?x=1")).text(), "GET /hello?x=1 0");
  assert.equal(digest(Buffer.from(await (await seen("large")).arrayBuffer())), digest(large));
  const many = await Promise.all(Array.from({ length: 20 }, async (_, i) => (await seen(`${i}`)).text()));
  assert.deepEqual(many, Array.from({ length: 20 }, (_, i) => `GET /${i} 0`));
  const posted = await seen("up", { method: "POST", body: large });
  assert.equal(await posted.text(), `POST /up ${large.length}`);

  assert.equal((await fetch(link)).status, 401);
  assert.equal((await fetch(place)).status, 401);
  assert.equal((await fetch(new URL("/api/runs", place))).status, 404);
  assert.equal((await fetch(new URL(place.pathname, url))).status, 404);
  const other = await helmr(["workspace", "preview", workspace, "3002"]);
  assert.match(other.stderr, /port_not_allowed/);
  await helmr(["workspace", "exec", "kill", workspace, id, "--signal", "KILL"]);
  await helmr(["workspace", "exec", "wait", workspace, id]);
  assert.equal((await seen("hello")).status, 503);
});

test("a WebSocket of a page in a preview reaches its program", async (t) => {
  await serve(t);
  const link = (await printed(["workspace", "preview", workspace, "3000"])).trim();
  const opened = await fetch(link, { redirect: "manual" });
  const place = new URL(opened.headers.get("location") as string, link);
  const cookie = opened.headers.get("set-cookie")?.split(";")[0] as string;
  const address = new URL("live?x=1", place).href.replace("http", "ws");
  const open = (headers: Record<string, string>): Promise<WebSocket> =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket(address, { protocols: ["reload"], headers } as never);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => resolve(socket);
      socket.onerror = () => reject(new Error("it was refused"));
    });
  await assert.rejects(open({ origin: place.origin }));
  await assert.rejects(open({ cookie }));
  await assert.rejects(open({ cookie, origin: "http://elsewhere.test" }));

  const socket = await open({ cookie: `mine=1; ${cookie}`, origin: place.origin });
  const heard: (string | ArrayBuffer)[] = [];
  let closed = false;
  socket.onmessage = ({ data }) => heard.push(data as string | ArrayBuffer);
  socket.onclose = () => (closed = true);
  assert.equal(socket.protocol, "reload");
  socket.send("hello");
  socket.send(large);
  await until("both echoes", () => heard.length === 3);
  assert.deepEqual(heard.slice(0, 2), ['["/live?x=1","http://127.0.0.1:3000","mine=1"]', "hello"]);
  assert.equal(digest(Buffer.from(heard[2] as ArrayBuffer)), digest(large));
  socket.close();
  await until("its end", () => closed);
});

test("a port of the sandbox is reached from here, and no other", async (t) => {
  const id = await serve(t);
  const { local } = await forward(t, 3000);
  assert.equal((await fetched(local, "/hello")).toString(), "GET /hello 0");
  assert.equal(digest(await fetched(local, "/large")), digest(large));
  const many = await Promise.all(Array.from({ length: 40 }, (_, i) => fetched(local, `/${i}`)));
  assert.deepEqual(many.map(String), Array.from({ length: 40 }, (_, i) => `GET /${i} 0`));
  const posted = await fetch(`http://127.0.0.1:${local}/up`, { method: "POST", body: large });
  assert.equal(await posted.text(), `POST /up ${large.length}`);

  /* The end of one direction is not the end of the other. */
  const half = await forward(t, 3001);
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect({ port: half.local, host: "127.0.0.1", allowHalfOpen: true });
    let heard = "";
    socket.on("data", (d) => (heard += d)).on("end", () => resolve(heard)).on("error", reject);
    socket.end("all of it");
  });
  assert.equal(answer, "heard all of it");

  const other = await forward(t, 3002);
  await assert.rejects(fetched(other.local, "/"));
  await until("a refusal", () => /port_not_allowed/.test(other.said()));
  await helmr(["workspace", "exec", "kill", workspace, id, "--signal", "KILL"]);
  await helmr(["workspace", "exec", "wait", workspace, id]);
  const nobody = await forward(t, 3000);
  await assert.rejects(fetched(nobody.local, "/"));
  await until("a refusal", () => /nobody listens on port 3000/.test(nobody.said()));
});
