// How the author's modules find each other and their packages. Types were stripped when the project
// was deployed, so a .ts file is plain JavaScript here and Node is told so instead of asked.
import { existsSync, statSync } from "node:fs";
import { createRequire, isBuiltin, registerHooks } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { sdkEntry, taskRoot, taskRootUrl } from "./places.ts";

type Resolve = NonNullable<Parameters<typeof registerHooks>[0]["resolve"]>;
type Context = Parameters<Resolve>[1];
type Next = Parameters<Resolve>[2];
type Resolved = ReturnType<Resolve>;

/* Directories that may hold node_modules, first hit wins; known once the run is. */
let chain: readonly string[] = [];

/* What makes a name of a file another one: Node imports nothing twice by the same. */
let edition = "";

/* As they are now: while an import is observed, what this looks for is not the module's doing. */
const look = { existsSync, statSync };

/* A .cts file is left to Node: it finds no types to strip; rare enough to pay for the search. */
const isPlainModule = /\.m?ts$/;
const guesses = [".ts", ".mts", ".js", ".mjs"];
/* TypeScript's own convention: the import names the file that a compiler would have written. */
const compiled: Record<string, string> = { ".js": ".ts", ".mjs": ".mts", ".cjs": ".cts" };

export class DependencyMissingError extends Error {
  override readonly name = "DependencyMissingError";
  readonly dependency: string;
  readonly file: string;
  constructor(dependency: string, importer: string) {
    const file = importer.slice(taskRoot().length + 1);
    super(
      `${file} imports "${dependency}", which is not installed: ` +
        `add it to "dependencies" in package.json, or install it in the image`,
    );
    this.dependency = dependency;
    this.file = file;
  }
}

function extensionOf(path: string): string {
  const dot = path.lastIndexOf(".");
  return dot > path.lastIndexOf("/") ? path.slice(dot) : "";
}

function isFile(path: string): boolean {
  return look.statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** The file a relative import means, or undefined to leave it to Node and its message. */
function fileFor(path: string): string | undefined {
  if (isFile(path)) return path;
  const extension = extensionOf(path);
  const original = compiled[extension];
  if (original !== undefined) {
    const source = path.slice(0, -extension.length) + original;
    if (isFile(source)) return source;
  }
  return [
    ...guesses.map((guess) => path + guess),
    ...guesses.map((guess) => `${path}/index${guess}`),
  ].find(isFile);
}

function packageOf(specifier: string): string {
  const parts = specifier.split("/");
  return specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] as string);
}

function ofFile(path: string): Resolved {
  const url = pathToFileURL(path).href + edition;
  return isPlainModule.test(path)
    ? { url, format: "module", shortCircuit: true }
    : { url, shortCircuit: true };
}

/* One for everybody, whatever is imported anew. */
const ofSdk = (): Resolved => ({
  url: pathToFileURL(sdkEntry).href,
  format: "module",
  shortCircuit: true,
});

export const holds = (directory: string, name: string): boolean =>
  look.existsSync(`${directory}/node_modules/${name}`);

/** A package, from the first directory of the chain that has it. */
function fromChain(specifier: string, context: Context, next: Next): Resolved {
  const name = packageOf(specifier);
  const base = chain.find((directory) => holds(directory, name));
  if (base === undefined) {
    if (specifier === "@helmr/sdk") return ofSdk();
    throw new DependencyMissingError(name, fileURLToPath(context.parentURL as string));
  }
  const from = `${base}/helmr-resolves-here.js`;
  /* A require is resolved from where it stands, whatever parent the hook names. */
  if (!context.conditions.includes("import")) return ofFile(createRequire(from).resolve(specifier));
  return next(specifier, { ...context, parentURL: pathToFileURL(from).href });
}

const resolve: Resolve = (specifier, context, next) => {
  const parent = context.parentURL;
  /* The adapter's own imports, too, must not make Node look at types or package.json files. */
  if (specifier === sdkEntry) return ofSdk();
  if (specifier.startsWith(taskRootUrl())) return ofFile(fileURLToPath(specifier));
  if (!parent?.startsWith(taskRootUrl()) || isBuiltin(specifier)) return next(specifier, context);
  if (/^\.{0,2}\/|^\.{1,2}$/.test(specifier)) {
    const path = fileFor(fileURLToPath(new URL(specifier, parent)));
    return path === undefined ? next(specifier, context) : ofFile(path);
  }
  if (/^(?:#|[a-z][a-z0-9+.-]*:)/i.test(specifier)) return next(specifier, context);
  return fromChain(specifier, context, next);
};

/** Resolves what task code imports; everything else is left to Node. */
export function registerResolution(): void {
  registerHooks({ resolve });
}

/** Files are imported anew from now on, or ("") as usual. */
export function resolveAnew(name: string): void {
  edition = name;
}

/** Bare imports of task code are looked for in these directories' node_modules. */
export function resolveIn(directories: readonly string[]): void {
  chain = directories;
}
