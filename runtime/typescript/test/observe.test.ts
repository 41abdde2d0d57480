import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Guest } from "./guest.ts";
import type { Files } from "./guest.ts";
import { taskHead } from "./tasks.ts";

/** A task file that begins with these lines. */
function subject(lines: string): string {
  return `${lines}\n${taskHead}export const subject = task({ id: "t", sandbox: sbx, run: async () => 1 });`;
}

/** Each is imported beside all others, in one process. */
const impure: Record<string, [lines: string, reason: RegExp]> = {
  "a variable of the environment": ["process.env.HOME;", /reads the environment variable HOME/],
  "a variable by a kept reference": [
    "const { env } = process; const { PATH } = env;",
    /reads the environment variable PATH/,
  ],
  "a variable by a named import": [
    'import { env } from "node:process"; env.PATH;',
    /reads the environment variable PATH/,
  ],
  "whether there is a variable": ['"CI" in process.env;', /reads the environment variable CI/],
  "all variables": ["Object.keys(process.env);", /reads the environment;/],
  "a spread of the variables": ["({ ...process.env });", /reads the environment;/],
  "a variable that is set": ["process.env.MINE = '1';", /changes the environment variable MINE/],
  "a variable that is removed": ["delete process.env.MINE;", /changes the environment variable/],
  "a timer": ["clearTimeout(setTimeout(() => 0, 1e6));", /starts a timer/],
  "an interval": ["setInterval(() => 0, 1e6).unref();", /starts a timer/],
  "a turn of the loop": ["setImmediate(() => 0);", /starts a timer/],
  "a timer it waits for": [
    'import { setTimeout as pause } from "node:timers/promises"; await pause(1);',
    /starts a timer/,
  ],
  "a file that is written": [
    'import { writeFileSync } from "node:fs"; writeFileSync("made", "");',
    /calls fs\.writeFileSync on made/,
  ],
  "a directory that is made": [
    'import fs from "node:fs"; fs.mkdirSync("folder");',
    /calls fs\.mkdirSync on folder/,
  ],
  "a file that is written by a promise": [
    'import { writeFile } from "node:fs/promises"; await writeFile("made2", "");',
    /calls fs\.writeFile on made2/,
  ],
  "a file of the host": [
    'import { readFileSync } from "node:fs"; readFileSync("/etc/hostname");',
    /reads \/etc\/hostname/,
  ],
  "whether there is a file": [
    'import { existsSync } from "node:fs"; existsSync("/run/secrets/key");',
    /reads \/run\/secrets\/key/,
  ],
  "an opened file": [
    'import { openSync } from "node:fs"; openSync("/dev/null", "r");',
    /opens \/dev\/null/,
  ],
  "a stream of a file": [
    'import { createReadStream } from "node:fs"; createReadStream("/dev/null").on("error", () => 0);',
    /reads \/dev\/null/,
  ],
  "its own file, open to be written": [
    'import { openSync } from "node:fs"; try { openSync(import.meta.filename, "r+"); } catch {}',
    /opens .*tasks/,
  ],
  "a line of output": ["console.log('');", /uses process\.stdout/],
  "a descriptor": ['import fs from "node:fs"; fs.writeSync(1, "");', /uses descriptor 1/],
  "a server": [
    'import net from "node:net"; net.createServer().listen(0, "127.0.0.1").unref();',
    /listens for connections/,
  ],
  "a part of Node that opens files by itself": [
    'import cluster from "node:cluster"; export { cluster };',
    /imports node:cluster/,
  ],
  "a stream made by its class": [
    'import fs from "node:fs"; new fs.WriteStream("made3").destroy();',
    /calls fs\.WriteStream on made3/,
  ],
  "a connection": [
    'import net from "node:net"; net.connect(1, "127.0.0.1").on("error", () => 0);',
    /opens a connection/,
  ],
  "a request": [
    'import http from "node:http"; http.get("http://127.0.0.1:1").on("error", () => 0);',
    /opens a connection/,
  ],
  "a fetch": ["fetch('http://127.0.0.1:1').catch(() => 0);", /uses the network/],
  "a socket of datagrams": [
    'import dgram from "node:dgram"; dgram.createSocket("udp4").unref();',
    /opens a connection/,
  ],
  "a name": [
    'import dns from "node:dns"; dns.lookup("localhost", () => 0);',
    /looks up a name/,
  ],
  "a program": [
    'import { spawn } from "node:child_process"; spawn("/bin/true", { env: {} }).unref();',
    /starts a program/,
  ],
  "a program it waits for": [
    'import { execFileSync } from "node:child_process"; execFileSync("/bin/true");',
    /starts a program/,
  ],
  "a thread": [
    'import { Worker } from "node:worker_threads"; new Worker("", { eval: true }).unref();',
    /starts a thread/,
  ],
  "a channel of messages": ["new MessageChannel();", /a port to one/],
  "Math.random": ["Math.random();", /draws a random number/],
  "random bytes": ['import crypto from "node:crypto"; crypto.randomBytes(1);', /draws a random/],
  "a random UUID": [
    'import { randomUUID } from "node:crypto"; randomUUID();',
    /draws a random number/,
  ],
  "random values": ["crypto.getRandomValues(new Uint8Array(1));", /draws a random number/],
  "random values by a named import": [
    'import { getRandomValues } from "node:crypto"; getRandomValues(new Uint8Array(1));',
    /draws a random number/,
  ],
  "a key": [
    'import { generateKeySync } from "node:crypto"; generateKeySync("aes", { length: 128 });',
    /draws a random number/,
  ],
  "Date.now": ["Date.now();", /reads the clock/],
  "a new date": ["new Date();", /reads the clock/],
  "the date as text": ["Date();", /reads the clock/],
  "a date of a class of its own": ["class Mine extends Date {} new Mine();", /reads the clock/],
  "performance.now": ["performance.now();", /reads the clock/],
  "process.hrtime": ["process.hrtime.bigint();", /reads the clock/],
  "process.pid": ["process.pid;", /reads process\.pid/],
  "process.argv": ["process.argv.slice(2);", /reads process\.argv/],
  "its directory": ["process.cwd();", /is told its directory/],
  "another directory": ["process.chdir('.');", /changes its process/],
  "the name of its host": ['import os from "node:os"; os.hostname();', /os\.hostname/],
  "a signal": ["process.on('SIGHUP', () => 0);", /listens to SIGHUP of the process/],
  "the end of the process": ["process.once('exit', () => 0);", /listens to exit of the process/],
  "a warning": ["process.emitWarning('x');", /prints a warning/],
  "a global": ["globalThis.mine = 1;", /adds the global mine/],
  "an addon": [
    'try { process.dlopen({ exports: {} }, "/nowhere.node"); } catch {}',
    /loads the addon \/nowhere\.node/,
  ],
  "what a package does": ['import "impure-package";', /package impure-package reads the env/],
  "what a required package does": [
    'import { createRequire } from "node:module"; createRequire(import.meta.url)("impure-cjs");',
    /package impure-cjs reads the clock/,
  ],
  "what is done after an await": ["await null; process.env.LATER;", /variable LATER/],
  "what its own file does": ['import "../lib/impure.ts";', /lib\/impure\.ts:2 reads the clock/],
  "what an evaluated text does": ['(0, eval)("Date.now()");', /reads the clock/],
};

const pure: Record<string, string> = {
  nothing: "",
  "a package": 'import { value } from "pure-package"; value();',
  "its own other file": 'import "../lib/pure.ts";',
  "a date that is given": "new Date(0); new Date('2026-01-01'); Date.UTC(2026, 1); Date.parse('');",
  "dates that are dates": "if (new Date(0).constructor !== Date) throw new Error('not the same');",
  "what only functions use":
    "export const later = () => [process.env.HOME, Date.now(), Math.random(), setTimeout(later)];",
  "references to what it will use":
    'import { randomUUID } from "node:crypto"; import fs from "node:fs"; export const uses = [randomUUID, fs.writeFileSync, Math.random, process.env, setTimeout, Date];',
  "modules of Node":
    'import "node:http"; import "node:https"; import "node:net"; import "node:child_process"; import "node:worker_threads"; import "node:os"; import "node:stream/web"; import "node:zlib"; import "node:tls"; import "node:dns"; import "node:readline"; import "node:util"; import process from "node:process"; export { process };',
  "files of its own":
    'import { existsSync, readFileSync } from "node:fs"; readFileSync(new URL("../lib/text.txt", import.meta.url)); existsSync(import.meta.filename);',
  "a file of its own by a promise":
    'import { readFile } from "node:fs/promises"; await readFile(import.meta.filename);',
  promises: "await Promise.all([1, 2].map(async (n) => n)); queueMicrotask(() => 0);",
  hashes: 'import { createHash } from "node:crypto"; createHash("sha256").update("x").digest();',
  "what it does not change":
    'import os from "node:os"; os.platform(); process.platform; process.version; process.versions.node; process.arch;',
  "an emitter of its own":
    'import { EventEmitter } from "node:events"; new EventEmitter().on("x", () => 0); new AbortController(); new Intl.NumberFormat("en").format(1);',
};

const files: Files = {
  "lib/impure.ts": "\nDate.now();",
  "lib/pure.ts": "export const a = 1;",
  "lib/text.txt": "text",
};
const packages: Files = {
  "deps/node_modules/impure-package/package.json": '{"type":"module","exports":"./index.js"}',
  "deps/node_modules/impure-package/index.js": "export const debug = process.env.DEBUG;",
  "deps/node_modules/impure-cjs/index.js": "require('./lib')",
  "deps/node_modules/impure-cjs/lib.js": "exports.now = Date.now()",
  "deps/node_modules/pure-package/index.js":
    "const path = require('path'); require('./part'); exports.value = () => path.sep;",
  "deps/node_modules/pure-package/part.js": "const util = require('util'); require('./x.json')",
  "deps/node_modules/pure-package/x.json": "{}",
};

interface Verdict {
  readonly module: string;
  readonly preload: boolean;
  readonly preload_reason?: string;
}

async function observe(guest: Guest, modules: readonly string[]): Promise<Map<string, Verdict>> {
  const tasks = modules.map((module) => ({ module, export: "subject" }));
  const program = guest.start({ mode: "check" }, JSON.stringify({ tasks }));
  const { output, stderr } = await program.ended;
  assert.ok(output, stderr);
  const verdicts = (output as { tasks: Verdict[] }).tasks;
  return new Map(verdicts.map((verdict) => [verdict.module, verdict]));
}

const fileFor = (what: string): string => `tasks/${what.replaceAll(/[^a-zA-Z]/g, "-")}.ts`;

const subjects = [
  ...Object.entries(pure),
  ...Object.entries(impure).map(([what, [lines]]) => [what, lines] as const),
];
let verdicts: Map<string, Verdict>;

before(async () => {
  const modules = subjects.map(([what, lines]) => [fileFor(what), subject(lines)] as const);
  using guest = new Guest({ ...files, ...Object.fromEntries(modules) });
  guest.write(packages);
  /* A pure one between two others must stay so. */
  const order = modules.map(([path]) => path).sort();
  verdicts = await observe(guest, order);
});

for (const [what, [, reason]] of Object.entries(impure))
  test(`an import that does this cannot happen ahead: ${what}`, () => {
    const verdict = verdicts.get(fileFor(what));
    assert.equal(verdict?.preload, false);
    assert.match(verdict?.preload_reason ?? "", reason);
  });

for (const what of Object.keys(pure))
  test(`an import may happen ahead that uses: ${what}`, () => {
    const verdict = verdicts.get(fileFor(what));
    assert.deepEqual([verdict?.preload, verdict?.preload_reason], [true, undefined]);
  });

test("what a shared file did counts for every task that imports it, whoever came first", async () => {
  const shared = subject('import "../lib/impure.ts";');
  using guest = new Guest({
    ...files,
    "tasks/first.ts": shared,
    "tasks/other.ts": subject('import "../lib/pure.ts";'),
    "tasks/second.ts": shared,
  });
  const found = await observe(guest, ["tasks/first.ts", "tasks/other.ts", "tasks/second.ts"]);
  assert.deepEqual(
    [...found.values()].map(({ preload }) => preload),
    [false, true, false],
  );
  assert.equal(found.get("tasks/second.ts")?.preload_reason, "lib/impure.ts:2 reads the clock");
});

test("observing changes nothing for who is observed", async () => {
  const lines = `
    import assert from "node:assert/strict";
    import { promisify } from "node:util";
    import fs, { realpathSync, exists } from "node:fs";
    assert.equal(typeof realpathSync.native, "function");
    assert.equal(await promisify(exists)("/etc"), true);
    assert.equal(Date.length, 7);
    assert.ok(new Date() instanceof Date);
    assert.equal(Object.prototype.toString.call(new Date()), "[object Date]");
    class Later extends Date { later() { return this.getTime() > 0; } }
    assert.ok(new Later().later() && new Later() instanceof Date);
    assert.match(Date(), /GMT/);
    process.env.ADDED = 7;
    assert.equal(process.env.ADDED, "7");
    assert.ok(Object.keys(process.env).includes("ADDED") && "ADDED" in process.env);
    assert.equal({ ...process.env }.ADDED, "7");
    delete process.env.ADDED;
    assert.equal(process.env.ADDED, undefined);
    assert.equal(process.argv.length > 0 && process.pid > 0, true);
    process.title = "mine";
    assert.equal(typeof performance.now(), "number");
    assert.equal(crypto.randomUUID().length, 36);
    assert.equal(fs.readFileSync.name, "readFileSync");`;
  using guest = new Guest({ "tasks/task.ts": subject(lines) });
  const found = await observe(guest, ["tasks/task.ts"]);
  assert.equal(found.get("tasks/task.ts")?.preload, false);
});

test("a long list of reasons is told in short", async () => {
  const lines = Array.from({ length: 8 }, (_, i) => `process.env.V${i};`).join("\n");
  using guest = new Guest({ "tasks/task.ts": subject(lines) });
  const found = await observe(guest, ["tasks/task.ts"]);
  assert.match(
    found.get("tasks/task.ts")?.preload_reason ?? "",
    /variable V0; .*variable V1; .*variable V2; and 5 more$/,
  );
});
