// Raw gVisor on the image the product runs on: the same layers, the same platform; with a network in
// a namespace of its own where it is asked for, else with none.
import { createHash } from "node:crypto";
import { type ChildProcess, execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { atEnd, folder, has, run, start, stop } from "./host.ts";
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
  network: Network | undefined;
}

/** A namespace with one link, an address and a route, and the one that holds the link's other end. */
export class Network {
  readonly #name = `helmr-bench-${process.pid}-${++count}`;
  #holder: ChildProcess | undefined;

  constructor() {
    atEnd(() => this.remove());
  }

  get path(): string {
    return `/run/netns/${this.#name}`;
  }

  /** What comes before a program that is to be in it. */
  get enter(): string[] {
    return [`--net=${this.path}`, `--mount=/proc/${this.#holder?.pid}/ns/mnt`];
  }

  /** gVisor takes address and routes from the link, so every sandbox needs a new one. */
  async renew(): Promise<void> {
    const [inner, outer] = [this.#name, `${this.#name}-peer`];
    await this.remove();
    const steps = [
      `ip netns add ${inner}`,
      `ip netns add ${outer}`,
      `ip -n ${inner} link set lo up`,
      `ip -n ${inner} link add eth0 type veth peer name eth1 netns ${outer}`,
      `ip -n ${inner} address add 10.111.0.2/30 dev eth0`,
      `ip -n ${outer} address add 10.111.0.1/30 dev eth1`,
      `ip -n ${outer} link set eth1 up`,
      `ip -n ${inner} link set eth0 up`,
      `ip -n ${inner} route add default via 10.111.0.1`,
    ];
    await run("sh", ["-e", "-c", steps.join("\n")]);
    await this.#hold();
  }

  /* runsc takes a namespace with this folder for the host's own, which it refuses. */
  async #hold(): Promise<void> {
    const hide = "mount -t tmpfs tmpfs /proc/sys/net/core; echo; exec sleep infinity";
    const args = [`--net=${this.path}`, "unshare", "--mount", "sh", "-ec", hide];
    this.#holder = start("nsenter", args);
    await once(this.#holder.stdout ?? this.#holder, "data");
  }

  async remove(): Promise<void> {
    if (this.#holder) await stop(this.#holder);
    for (const name of [this.#name, `${this.#name}-peer`])
      if (existsSync(`/run/netns/${name}`)) await run("ip", ["netns", "delete", name]);
  }
}

/** The program and its arguments: in the network's namespace, where there is one. */
function command(raw: Runsc, network: Network | undefined, ...rest: string[]): [string, string[]] {
  const flags = [`--root=${join(folder, "runsc")}`, `--platform=${raw.platform}`];
  const args = ["--ignore-cgroups", `--network=${network ? "sandbox" : "none"}`, ...rest];
  if (!network) return ["runsc", [...flags, ...args]];
  return ["nsenter", [...network.enter, "runsc", ...flags, ...args]];
}

/** Starts a container whose only process is Node with this program; stdout is a pipe. */
export function runNode(raw: Runsc, program: string, network?: Network): Container {
  const namespaces = ["pid", "ipc", "uts", "mount"].map((type) => ({ type }));
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
    linux: {
      namespaces: [...namespaces, { type: "network", ...(network && { path: network.path }) }],
    },
  };
  writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
  const [file, args] = command(raw, network, "run", `--bundle=${bundle}`, id);
  return { id, bundle, network, process: start(file, args) };
}

/** Saves it below the image's folder; the container is over after it. */
export async function checkpointNode(raw: Runsc, of: Container, image: string): Promise<void> {
  await run(...command(raw, of.network, "checkpoint", `--image-path=${image}`, of.id));
}

export function restoreNode(raw: Runsc, of: Container, image: string): Container {
  const id = `bench-${process.pid}-${++count}`;
  const rest = ["restore", `--image-path=${image}`, `--bundle=${of.bundle}`, id];
  return { ...of, id, process: start(...command(raw, of.network, ...rest)) };
}
