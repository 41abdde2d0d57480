// Where a module, while it is imported, can learn something that may differ from one process to the
// next, or do something that must happen once per process. Each trap tells and then does what was
// asked for, unchanged. They stay for the life of the process, which only checks an image.
import asyncHooks from "node:async_hooks";
import childProcess from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import os from "node:os";
import { inOwnFiles } from "./own_files.ts";

/** Whose call counts: the module's, also by way of Node, but not Node's own while it loads what the
 * module imports (`any`); only one that no part of Node made in its turn (`direct`); all (`every`). */
export type Caller = "any" | "direct" | "every";
/** Never throws. `what` is asked only when it counts; undefined is nothing. */
export type Note = (what: () => string | undefined, caller?: Caller) => void;

type Callable = (...args: unknown[]) => unknown;
type Owner = Record<string | symbol, unknown>;

/** What a call with these arguments is, or undefined when it is nothing. */
type Meaning = (args: readonly unknown[]) => string | undefined;

function replace(owner: Owner, name: string | symbol, value: unknown): void {
  const { enumerable = false, configurable = true } =
    Object.getOwnPropertyDescriptor(owner, name) ?? {};
  Object.defineProperty(owner, name, { value, enumerable, configurable, writable: true });
}

/* A proxy: what hangs on the function, its name and its length stay. */
function watched(target: Callable, note: Note, meaning: Meaning, caller: Caller): Callable {
  const tell = (args: readonly unknown[]): void => note(() => meaning(args), caller);
  return new Proxy(target, {
    apply(callee, self, args: unknown[]) {
      tell(args);
      return Reflect.apply(callee, self, args) as unknown;
    },
    construct(callee, args: unknown[], newTarget) {
      tell(args);
      return Reflect.construct(callee, args, newTarget) as object;
    },
  });
}

function watchCall(
  owner: object,
  name: string,
  note: Note,
  meaning: Meaning,
  caller: Caller = "any",
): void {
  const before = Object.getOwnPropertyDescriptor(owner, name);
  const target = (owner as Owner)[name];
  /* One that cannot be replaced calls another that can. */
  if (typeof target === "function" && (before?.configurable || before?.writable))
    replace(owner as Owner, name, watched(target as Callable, note, meaning, caller));
}

function watchCalls(owner: object, names: readonly string[], note: Note, what: string): void {
  for (const name of names) watchCall(owner, name, note, () => what);
}

function watchProperty(owner: object, name: string, note: Note, what: string): void {
  const before = Object.getOwnPropertyDescriptor(owner, name);
  if (!before?.configurable) return;
  const slot = before.get ? undefined : { value: before.value as unknown };
  Object.defineProperty(owner, name, {
    configurable: true,
    enumerable: before.enumerable ?? false,
    get() {
      note(() => what);
      return slot ? slot.value : (before.get?.call(owner) as unknown);
    },
    set(next: unknown) {
      note(() => `changes process.${name}`);
      if (slot) slot.value = next;
      else before.set?.call(owner, next);
    },
  });
}

function watchEnvironment(note: Note): void {
  const read = (name: string | symbol): void => {
    if (typeof name === "string") note(() => `reads the environment variable ${name}`);
  };
  const wrote = (name: string | symbol): void =>
    note(() => `changes the environment variable ${String(name)}`);
  const environment = new Proxy(process.env, {
    get(target, name) {
      read(name);
      return Reflect.get(target, name) as unknown;
    },
    has(target, name) {
      read(name);
      return Reflect.has(target, name);
    },
    getOwnPropertyDescriptor(target, name) {
      read(name);
      return Reflect.getOwnPropertyDescriptor(target, name);
    },
    ownKeys(target) {
      note(() => "reads the environment");
      return Reflect.ownKeys(target);
    },
    set(target, name, value) {
      wrote(name);
      return Reflect.set(target, name, value);
    },
    defineProperty(target, name, descriptor) {
      wrote(name);
      return Reflect.defineProperty(target, name, descriptor);
    },
    deleteProperty(target, name) {
      wrote(name);
      return Reflect.deleteProperty(target, name);
    },
  });
  replace(process as unknown as Owner, "env", environment);
}

const clock = (): string => "reads the clock";

function watchClock(note: Note): void {
  watchCall(Date, "now", note, clock);
  const real = Date as unknown as Callable;
  const date: Callable = new Proxy(real, {
    apply(target, self, args: unknown[]) {
      note(clock);
      return Reflect.apply(target, self, args) as unknown;
    },
    construct(target, args: unknown[], newTarget) {
      if (args.length === 0) note(clock);
      return Reflect.construct(target, args, newTarget === date ? real : newTarget) as object;
    },
  });
  replace(Date.prototype as unknown as Owner, "constructor", date);
  replace(globalThis as unknown as Owner, "Date", date);
  const timing = Object.getPrototypeOf(performance) as object;
  watchCalls(timing, ["now", "mark", "measure", "toJSON", "eventLoopUtilization"], note, clock());
  watchProperty(timing, "timeOrigin", note, clock());
  watchCall(process.hrtime, "bigint", note, clock);
  watchCalls(process, ["hrtime", "uptime"], note, clock());
}

const random = "draws a random number";
const drawing =
  /^(?:random|generate|pseudoRandom|prng$|rng$|getRandom|createECDH|createDiffie|getDiffie|sign$|createSign$|(?:public|private)Encrypt|encapsulate)/;

function watchRandomness(note: Note): void {
  watchCall(Math, "random", note, () => random);
  const names = Object.getOwnPropertyNames(crypto).filter((name) => drawing.test(name));
  watchCalls(crypto, names, note, random);
  watchCalls(Crypto.prototype, ["getRandomValues", "randomUUID"], note, random);
  watchCalls(SubtleCrypto.prototype, ["generateKey", "sign", "encrypt"], note, random);
}

/* Of a path that is part of the deployment they read what is always the same. */
const reading =
  /^(?:access|exists|stat|lstat|readFile|readdir|readlink|realpath|opendir|createReadStream|openAsBlob|glob)(?:Sync)?$|ReadStream$/;
/* They say nothing of the outside, or end what another call began. */
const harmless = /^(?:close(?:Sync)?|_toUnixTimestamp|Dirent|Stats|Dir)$/;

function fileMeaning(name: string): Meaning {
  if (/^open(?:Sync)?$/.test(name))
    return ([path, flags]) =>
      (flags === undefined || flags === "r" || flags === 0) && inOwnFiles(path)
        ? undefined
        : `opens ${String(path)}`;
  if (reading.test(name))
    return ([path]) => (inOwnFiles(path) ? undefined : `reads ${String(path)}`);
  return ([path]) =>
    typeof path === "number" ? `uses descriptor ${path}` : `calls fs.${name} on ${String(path)}`;
}

function watchFiles(note: Note): void {
  for (const owner of [fs, fs.promises])
    for (const name of Object.keys(owner))
      if (!harmless.test(name)) watchCall(owner, name, note, fileMeaning(name), "direct");
}

const processReads = {
  "is told its directory": ["cwd"],
  "is told about its process": ["cpuUsage", "memoryUsage", "resourceUsage", "constrainedMemory"],
  "changes its process": ["chdir", "umask", "kill", "exit", "abort", "setuid", "setgid", "execve"],
  "catches errors": ["setUncaughtExceptionCaptureCallback"],
  "reads a file of variables": ["loadEnvFile"],
  "prints a warning": ["emitWarning"],
} as const;

function watchProcess(note: Note): void {
  for (const [what, names] of Object.entries(processReads)) watchCalls(process, names, note, what);
  watchCall(process, "dlopen", note, ([, path]) => `loads the addon ${String(path)}`, "every");
  for (const name of ["pid", "ppid", "argv", "title"])
    watchProperty(process, name, note, `reads process.${name}`);
  for (const name of ["stdin", "stdout", "stderr"])
    watchProperty(process, name, note, `uses process.${name}`);
}

/* What else os has is the same on every host that may run the image. */
const hostFacts =
  "availableParallelism cpus freemem getPriority homedir hostname loadavg networkInterfaces " +
  "setPriority tmpdir totalmem userInfo uptime";

function watchHost(note: Note): void {
  for (const name of hostFacts.split(" "))
    watchCall(os, name, note, () => `asks its host for os.${name}`);
}

/* What these open is opened later, by Node alone, or is gone when they return. */
function watchTheWorld(note: Note): void {
  watchCall(net.Server.prototype, "listen", note, () => "listens for connections");
  watchCalls(childProcess, ["spawnSync", "execSync", "execFileSync"], note, "starts a program");
  watchCalls(globalThis, ["fetch", "WebSocket", "EventSource"], note, "uses the network");
}

/* By the names that Node gives to what it opens. Files are watched where they are asked for, and
 * names that are not here are promises, work that ends, or somebody's own. */
const resources: readonly (readonly [RegExp, string])[] = [
  [/^(?:Timeout|Immediate)$/, "starts a timer"],
  [/^(?:TCP|PIPE|UDP|TLS|JSSTREAM|JSUDP|HTTP|QUIC)/, "opens a connection"],
  [/^(?:GETADDRINFO|GETNAMEINFO|QUERYWRAP|DNSCHANNEL)/, "looks up a name"],
  [/^PROCESSWRAP$/, "starts a program"],
  [/^(?:WORKER|MESSAGEPORT)$/, "starts a thread or opens a port to one"],
  [/^SIGNALWRAP$/, "listens to a signal"],
  [/^(?:FSEVENTWRAP|STATWATCHER)$/, "watches a file"],
  [/^TTYWRAP$/, "opens a terminal"],
  [/^(?:ELDHISTOGRAM|INSPECTORJSBINDING|SIGINTWATCHDOG)$/, "watches its process"],
];

function watchResources(note: Note): void {
  const init = (_id: number, type: string): void => {
    const what = resources.find(([pattern]) => pattern.test(type))?.[1];
    if (what !== undefined) note(() => what);
  };
  asyncHooks.createHook({ init }).enable();
}

export function setTraps(note: Note): void {
  watchEnvironment(note);
  watchClock(note);
  watchRandomness(note);
  watchFiles(note);
  watchProcess(note);
  watchHost(note);
  watchTheWorld(note);
  watchResources(note);
  /* Named imports of Node's own modules see the traps, too. */
  syncBuiltinESMExports();
}
