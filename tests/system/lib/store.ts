// Image stores on their own, without a server: a folder and the commands of `helmr image`.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";
import { command } from "./installation.ts";
import type { Result } from "./installation.ts";
import type { Scope } from "./scope.ts";

const binary = process.env.HELMR as string;

export class Store {
  readonly dataDir: string;
  readonly env: Record<string, string>;

  constructor(dataDir: string, env: Record<string, string> = {}) {
    this.dataDir = dataDir;
    this.env = env;
  }

  /** The same folder with other settings. */
  with(env: Record<string, string>): Store {
    return new Store(this.dataDir, { ...this.env, ...env });
  }

  image(...args: string[]): Promise<Result> {
    return command(binary, ["image", ...args, "--data-dir", this.dataDir], { env: this.env });
  }

  /** What `helmr image` printed; it must succeed. */
  async printed(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.image(...args);
    assert.equal(code, 0, `helmr image ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  /** The message of a command that must fail. */
  async refused(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.image(...args);
    assert.equal(code, 1, stdout + stderr);
    assert.match(stderr, /^helmr: /m);
    return stderr;
  }

  /** References and their digests. */
  async list(): Promise<Record<string, string>> {
    const lines = (await this.printed("list")).split("\n").filter((line) => line !== "");
    return Object.fromEntries(lines.map((line) => line.split("\t").slice(0, 2)));
  }

  /** Nothing in it is damaged, and nothing is half-written. */
  async isClean(): Promise<void> {
    await this.printed("verify");
    const tmp = `${this.dataDir}/worker/oci/tmp`;
    assert.deepEqual(existsSync(tmp) ? readdirSync(tmp) : [], []);
  }

  blobs(): string[] {
    const folder = `${this.dataDir}/worker/oci/blobs/sha256`;
    return existsSync(folder) ? readdirSync(folder).sort() : [];
  }

  /** A document of the store by its digest. */
  document(digest: string): any {
    const path = `${this.dataDir}/worker/oci/blobs/${digest.replace(":", "/")}`;
    return JSON.parse(readFileSync(path, "utf8"));
  }

  /** The digests of an image's unpacked layers. */
  diffIds(manifest: string): string[] {
    return this.document(this.document(manifest).config.digest).rootfs.diff_ids;
  }
}

/** The base images made for these tests; only to be read. */
export const baseImages = new Store(process.env.SYSTEM_IMAGE_CACHE as string);

export function emptyStore(t: Scope, env: Record<string, string> = {}): Store {
  const folder = mkdtempSync(`${tmpdir()}/helmr-store-`);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return new Store(folder, env);
}

export const sha256 = (content: Buffer | string): string =>
  `sha256:${createHash("sha256").update(content).digest("hex")}`;

export interface Made {
  readonly manifest: string;
  readonly digest: string;
  readonly blobs: ReadonlyMap<string, Buffer>;
}

/** An image of a few layers, each with one file of so many bytes that do not compress. */
export function makeImage(sizes: readonly number[]): Made {
  const blobs = new Map<string, Buffer>();
  const folder = mkdtempSync(`${tmpdir()}/helmr-made-`);
  const add = (content: Buffer, mediaType: string) => {
    const digest = sha256(content);
    blobs.set(digest, content);
    return { mediaType, digest, size: content.length };
  };
  const tars = sizes.map((size, at) => {
    writeFileSync(`${folder}/file-${at}`, randomBytes(size));
    return execFileSync("tar", ["-C", folder, "-c", `file-${at}`], { maxBuffer: 1 << 28 });
  });
  rmSync(folder, { recursive: true });
  const kind = "application/vnd.oci.image";
  const layers = tars.map((tar) =>
    add(gzipSync(tar, { level: 1 }), `${kind}.layer.v1.tar+gzip`),
  );
  const config = {
    architecture: process.arch === "arm64" ? "arm64" : "amd64",
    os: "linux",
    config: {},
    rootfs: { type: "layers", diff_ids: tars.map(sha256) },
  };
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: `${kind}.manifest.v1+json`,
    config: add(Buffer.from(JSON.stringify(config)), `${kind}.config.v1+json`),
    layers,
  });
  return { manifest, digest: sha256(manifest), blobs };
}

async function accepted(answer: Response): Promise<Response> {
  assert.ok(answer.ok, `${answer.url}: ${answer.status} ${await answer.clone().text()}`);
  return answer;
}

/** A manifest or index under a tag. */
export async function putManifest(origin: string, name: string, text: string): Promise<void> {
  const [repository, tag] = name.split(":");
  const { mediaType } = JSON.parse(text);
  const options = { method: "PUT", headers: { "content-type": mediaType }, body: text };
  await accepted(await fetch(`${origin}/v2/${repository}/manifests/${tag}`, options));
}

/** Sends an image to a registry, without any of our own code. */
export async function putImage(origin: string, name: string, made: Made): Promise<void> {
  const repository = name.split(":")[0];
  for (const [digest, content] of made.blobs) {
    const begun = await fetch(`${origin}/v2/${repository}/blobs/uploads/`, { method: "POST" });
    const place = new URL((await accepted(begun)).headers.get("location") as string, origin);
    place.searchParams.set("digest", digest);
    const headers = { "content-type": "application/octet-stream" };
    await accepted(await fetch(place, { method: "PUT", headers, body: new Uint8Array(content) }));
  }
  await putManifest(origin, name, made.manifest);
}
