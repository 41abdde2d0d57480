// Whether importing a module is the same whenever and wherever it happens. Then a process that
// imported it ahead can be copied for its runs, and nobody can tell.
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { getCallSites } from "node:util";
import { home, taskRoot } from "../places.ts";
import { setTraps } from "./traps.ts";
import type { Caller } from "./traps.ts";

const framesLimit = 100;

/* Parts of Node that open something by ways that have no trap. */
const worldly = new Set(
  ["cluster", "inspector", "inspector/promises", "repl", "sqlite", "wasi"].map((n) => `node:${n}`),
);

/* Kept before a module could put something else in its place. */
const nextTurn = setImmediate;

/** Something an import did, and the files that had a part in it. */
interface Seen {
  readonly reason: string;
  readonly files: readonly string[];
}

interface Author {
  readonly place: string;
  readonly files: readonly string[];
}

/* Its name is a URL in modules, a path in what is required, and anything in what is evaluated. */
function fileOf(name: string): string {
  try {
    return name.startsWith("file:") ? fileURLToPath(name) : name;
  } catch {
    return name;
  }
}

const isLoader = (name: string): boolean =>
  name.startsWith("node:internal/modules/") || name === "node:internal/bootstrap/realm";

function placeOf(file: string, line?: number): string {
  const at = file.lastIndexOf("/node_modules/");
  if (at >= 0) {
    const [first = "", second = ""] = file.slice(at + "/node_modules/".length).split("/");
    return `package ${first.startsWith("@") ? `${first}/${second}` : first}`;
  }
  const name = file.startsWith(`${taskRoot()}/`) ? file.slice(taskRoot().length + 1) : file;
  return line === undefined ? name : `${name}:${line}`;
}

/** Who in the stack is not Node and not the adapter; undefined when Node acts for itself. */
function author(caller: Caller): Author | undefined {
  const files: string[] = [];
  let place: string | undefined;
  for (const { scriptName, lineNumber } of getCallSites(framesLimit)) {
    const file = fileOf(scriptName);
    if (file.startsWith(`${home}/adapter/`)) continue;
    if (scriptName.startsWith("node:")) {
      const isItsOwn = caller === "direct" || (caller === "any" && isLoader(scriptName));
      if (place === undefined && isItsOwn) return undefined;
      continue;
    }
    place ??= placeOf(file, lineNumber);
    files.push(file);
  }
  return place === undefined ? undefined : { place, files };
}

/** What is there after an import and was not before. */
class Surroundings {
  readonly #globals = new Set(Reflect.ownKeys(globalThis));
  readonly #listeners = Surroundings.#count(process.eventNames(), (event) =>
    process.listenerCount(event),
  );
  readonly #resources = process.getActiveResourcesInfo();

  static #count(
    events: readonly (string | symbol)[],
    counter: (event: string | symbol) => number,
  ): Map<string | symbol, number> {
    return new Map(events.map((event) => [event, counter(event)]));
  }

  *changes(): Generator<string> {
    for (const key of Reflect.ownKeys(globalThis))
      if (!this.#globals.has(key) && !String(key).startsWith("Symbol(helmr.sdk."))
        yield `adds the global ${String(key)}`;
    for (const event of process.eventNames())
      if (process.listenerCount(event) > (this.#listeners.get(event) ?? 0))
        yield `listens to ${String(event)} of the process`;
    const left = process.getActiveResourcesInfo();
    for (const resource of this.#resources)
      if (left.includes(resource)) left.splice(left.indexOf(resource), 1);
    for (const resource of new Set(left)) yield `leaves a ${resource} open`;
  }
}

export class Observer {
  /** By what it says: what a loop does is the same thing each time. */
  readonly #seen = new Map<string, Seen>();
  readonly #known = new Set<string>();
  readonly #imports = new Map<string, Set<string>>();
  /** Files loaded since the import under way began; undefined between imports. */
  #loaded: string[] | undefined;
  #isNoting = false;

  /* A Node that cannot be observed still loads tasks: none of them ahead. */
  #isBlind = false;

  static begin(): Observer {
    const observer = new Observer();
    try {
      observer.#watch();
    } catch {
      observer.#isBlind = true;
    }
    return observer;
  }

  #watch(): void {
    registerHooks({
      resolve: (specifier, context, next) => {
        const found = next(specifier, context);
        if (context.parentURL !== undefined) this.#link(context.parentURL, found.url);
        return found;
      },
      load: (url, context, next) => {
        if (url.startsWith("file:")) this.#load(fileOf(url));
        return next(url, context);
      },
    });
    setTraps((what, caller = "any") => this.#note(what, caller));
  }

  /** One at a time. */
  async import(url: string): Promise<Record<string, unknown>> {
    const before = new Surroundings();
    this.#loaded = [fileOf(url)];
    try {
      const module = (await import(url)) as Record<string, unknown>;
      /* What it began without waiting is begun by then. */
      await new Promise((resolve) => nextTurn(resolve));
      const files = this.#loaded;
      for (const change of before.changes()) this.#see(placeOf(fileOf(url)), change, files);
      return module;
    } finally {
      this.#loaded = undefined;
    }
  }

  /** Why a process that imported this module must not be copied; none: it may be. */
  reasons(url: string): string[] {
    if (this.#isBlind) return ["this Node cannot be observed"];
    const reached = this.#reach(fileOf(url));
    const reasons = [...this.#seen.values()]
      .filter(({ files }) => files.some((file) => reached.has(file)))
      .map(({ reason }) => reason);
    return [...new Set(reasons)];
  }

  #load(file: string): void {
    this.#loaded?.push(file);
    this.#known.add(file);
  }

  #link(parent: string, child: string): void {
    const from = fileOf(parent);
    const children = this.#imports.get(from) ?? new Set();
    this.#imports.set(from, children.add(fileOf(child)));
    if (worldly.has(child)) this.#see(placeOf(from), `imports ${child}`, [from]);
  }

  #reach(first: string): Set<string> {
    const reached = new Set([first]);
    for (const file of reached) for (const next of this.#imports.get(file) ?? []) reached.add(next);
    return reached;
  }

  #note(meaning: () => string | undefined, caller: Caller): void {
    /* What tells may do itself what is told. */
    if (this.#loaded === undefined || this.#isNoting) return;
    this.#isNoting = true;
    try {
      const what = meaning();
      const found = what === undefined ? undefined : author(caller);
      if (what !== undefined && found) this.#see(found.place, what, found.files);
    } catch {
      this.#see("something", "cannot be observed", this.#loaded);
    } finally {
      this.#isNoting = false;
    }
  }

  /* Code that came from no file we know may be anybody's who is being loaded. */
  #see(place: string, what: string, files: readonly string[]): void {
    const loaded = this.#loaded ?? [];
    const known = files.filter((file) => this.#known.has(file));
    const parts = [...loaded.slice(0, 1), ...(known.length > 0 ? known : loaded)];
    const reason = `${place} ${what}`;
    this.#seen.set([reason, ...parts].join("\n"), { reason, files: parts });
  }
}
