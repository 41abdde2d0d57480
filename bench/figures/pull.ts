// An image from Debian's registry on loopback into an empty store, against skopeo to a directory.
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { folder, freePort, has, note, run, start, until } from "../host.ts";
import { figure, median } from "../report.ts";
import type { Stack } from "../stack.ts";

const rounds = 5;
const layers = 4;
const layerBytes = 64e6;
const work = join(folder, "pull");
const local = "bench.example/pull:1";

/** An OCI layout as a worker's store: only digests matter here, so the layers are noise. */
function makeImage(store: string): void {
  const oci = join(store, "worker/oci");
  mkdirSync(join(oci, "blobs/sha256"), { recursive: true });
  const put = (mediaType: string, bytes: Buffer) => {
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(join(oci, "blobs/sha256", hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const json = (value: unknown) => Buffer.from(JSON.stringify(value));
  const type = (name: string) => `application/vnd.oci.image.${name}`;
  const parts = Array.from({ length: layers }, () =>
    put(type("layer.v1.tar"), randomBytes(layerBytes)),
  );
  const config = put(
    type("config.v1+json"),
    json({
      architecture: process.arch === "arm64" ? "arm64" : "amd64",
      os: "linux",
      rootfs: { type: "layers", diff_ids: parts.map((part) => part.digest) },
    }),
  );
  const manifest = put(
    type("manifest.v1+json"),
    json({ schemaVersion: 2, mediaType: type("manifest.v1+json"), config, layers: parts }),
  );
  const annotations = { "org.opencontainers.image.ref.name": local };
  writeFileSync(join(oci, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}\n');
  writeFileSync(
    join(oci, "index.json"),
    json({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
  );
}

async function startRegistry(): Promise<string> {
  const address = `127.0.0.1:${await freePort()}`;
  const [host, port] = address.split(":");
  const config = join(work, "registry.yml");
  writeFileSync(
    config,
    `version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n` +
      `storage: {filesystem: {rootdirectory: ${join(work, "registry")}}}\n` +
      `http: {addr: "${address}"}\n`,
  );
  const server = start("docker-registry", ["serve", config], { stdio: "ignore" });
  await until("the registry", () => {
    if (server.exitCode !== null) throw new Error("docker-registry has ended");
    return new Promise((done) => {
      const socket = connect(Number(port), host, () => (socket.destroy(), done(true)));
      socket.on("error", () => done(false));
    });
  });
  return address;
}

export async function pull(stack: Stack): Promise<void> {
  if (!(await has("docker-registry")) || !(await has("skopeo"))) {
    note("skipped: pull, docker-registry or skopeo is missing");
    return;
  }
  const helmr = resolve(stack.build, "helmr");
  const from = join(work, "from");
  const into = join(work, "into");
  makeImage(from);
  const address = await startRegistry();
  const remote = `${address}/pull:1`;
  await run(helmr, ["image", "push", local, remote, "--data-dir", from]);
  const seconds = async (file: string, ...args: string[]) => {
    rmSync(into, { recursive: true, force: true });
    await run("sync", []);
    const begun = performance.now();
    await run(file, args);
    return (performance.now() - begun) / 1000;
  };
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push(await seconds(helmr, "image", "pull", remote, "--data-dir", into));
    const copy = ["copy", "-q", "--src-tls-verify=false", `docker://${remote}`, `dir:${into}`];
    theirs.push(await seconds("skopeo", ...copy));
  }
  const rate = (times: number[]) => (layers * layerBytes) / 1e6 / median(times);
  figure("pull", rate(ours), "MB/s", { name: "skopeo_copy", value: rate(theirs) });
  rmSync(work, { recursive: true, force: true });
}
