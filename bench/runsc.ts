// Raw gVisor on the image the product runs on: the same layers, the same platform, no network.
import { createHash } from "node:crypto";
import { type ChildProcess, execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { atEnd, folder, has, run, start } from "./host.ts";
import { data } from "./stack.ts";

const base = "docker.io/library/node:24-bookworm-slim";
const sdk = join(import.meta.dirname, "../sdk/typescript/dist");
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface Runsc {
  rootfs: string;
  platform: string;
}

interface Index {
  manifests: { digest: string; annotations?: Record<string, string> }[];
}

function blob<T>(digest: string): T {
  const [algorithm = "", hex = ""] = digest.split(":");
  return JSON.parse(readFileSync(join(data, "worker/oci/blobs", algorithm, hex), "utf8")) as T;
}

/** The unpacked layers, lowest first, by the chain ids of the image specification. */
function layers(): string[] {
  const index = JSON.parse(readFileSync(join(data, "worker/oci/index.json"), "utf8")) as Index;
  const named = index.manifests.find(
    (entry) => entry.annotations?.["org.opencontainers.image.ref.name"] === base,
  );
  if (!named) throw new Error(`no ${base} in the image store`);
  const manifest = blob<{ config: { digest: string } }>(named.digest);
  const config = blob<{ rootfs: { diff_ids: string[] } }>(manifest.config.digest);
  let chain = "";
  return config.rootfs.diff_ids.map((diff) => {
    const text = `${chain} ${diff}`;
    chain = chain ? `sha256:${createHash("sha256").update(text).digest("hex")}` : diff;
    return join(data, "worker/layers", chain.slice("sha256:".length));
  });
}

let ready: Promise<Runsc | undefined> | undefined;

async function prepare(): Promise<Runsc | undefined> {
  if (!(await has("runsc"))) return undefined;
  const rootfs = join(folder, "rootfs");
  for (const name of ["rootfs", "upper", "work", "runsc"]) mkdirSync(join(folder, name));
  const lower = `lowerdir=${layers().reverse().join(":")}`;
  const upper = `upperdir=${join(folder, "upper")},workdir=${join(folder, "work")}`;
  await run("mount", ["-t", "overlay", "overlay", "-o", `${lower},${upper}`, rootfs]);
  atEnd(() => execFileSync("umount", [rootfs]));
  const flags = await run("sh", ["-c", "runsc flags 2>&1 || true"]);
  return { rootfs, platform: flags.includes("systrap") ? "systrap" : "ptrace" };
}

/** The image's files below one folder and how to run them, or nothing without runsc. */
export const runsc = () => (ready ??= prepare());

let count = 0;

export interface Container {
  id: string;
  bundle: string;
  process: ChildProcess;
}

function command(raw: Runsc, ...rest: string[]): string[] {
  const flags = [`--root=${join(folder, "runsc")}`, `--platform=${raw.platform}`];
  return [...flags, "--ignore-cgroups", "--network=none", ...rest];
}

/** Starts a container whose only process is Node with this program; stdout is a pipe. */
export function runNode(raw: Runsc, program: string): Container {
  const id = `bench-${process.pid}-${++count}`;
  const bundle = join(folder, id);
  mkdirSync(bundle);
  const config = {
    ociVersion: "1.0.2",
    process: {
      args: ["node", "-e", program],
      env: [`PATH=${path}`],
      cwd: "/",
      user: { uid: 0, gid: 0 },
    },
    root: { path: raw.rootfs, readonly: true },
    mounts: [
      { destination: "/proc", type: "proc", source: "proc" },
      { destination: "/tmp", type: "bind", source: sdk, options: ["rbind", "ro"] },
    ],
    linux: { namespaces: ["pid", "network", "ipc", "uts", "mount"].map((type) => ({ type })) },
  };
  writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
  return { id, bundle, process: start("runsc", command(raw, "run", `--bundle=${bundle}`, id)) };
}

/** Saves it below the image's folder; the container is over after it. */
export async function checkpointNode(raw: Runsc, of: Container, image: string): Promise<void> {
  await run("runsc", command(raw, "checkpoint", `--image-path=${image}`, of.id));
}

export function restoreNode(raw: Runsc, of: Container, image: string): Container {
  const id = `bench-${process.pid}-${++count}`;
  const rest = ["restore", `--image-path=${image}`, `--bundle=${of.bundle}`, id];
  return { id, bundle: of.bundle, process: start("runsc", command(raw, ...rest)) };
}
