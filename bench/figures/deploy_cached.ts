// An unchanged project deployed again, against buildah on a Dockerfile with the same base and files.
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { atEnd, folder, has, note, run } from "../host.ts";
import { figure, median } from "../report.ts";
import { data, deployment, type Stack, startUp } from "../stack.ts";

const rounds = 10;
const project = "examples/hello-world";
const base = "docker.io/library/node:24-bookworm-slim";
const local = "localhost/node:24-bookworm-slim";
const work = join(folder, "buildah");
const drivers = ["overlay", "vfs"];

const storage = (driver: string): string[] => [
  ...["--root", join(work, "root"), "--runroot", join(work, "run")],
  ...["--storage-driver", driver],
];

/** buildah's arguments once it has built the image for the first time, or nothing without it. */
async function prepareBuildah(): Promise<string[] | undefined> {
  if (!(await has("buildah")) || !(await has("skopeo"))) return undefined;
  const context = join(work, "context");
  mkdirSync(work, { recursive: true });
  cpSync(project, context, { recursive: true });
  const lines = [`FROM ${local}`, "WORKDIR /opt/helmr/task", "COPY . .", ""];
  writeFileSync(join(work, "Dockerfile"), lines.join("\n"));
  atEnd(() => run("sh", ["-c", `umount ${join(work, "root/overlay")} 2>/dev/null || true`]));
  for (const driver of drivers) {
    const place = `[${driver}@${join(work, "root")}+${join(work, "run")}]`;
    const args = [
      ...[...storage(driver), "bud", "--quiet", "--layers", "--isolation", "chroot"],
      ...["--network", "host", "--file", join(work, "Dockerfile"), "--tag", "localhost/hello"],
      context,
    ];
    try {
      const source = `oci:${join(data, "worker/oci")}:${base}`;
      await run("skopeo", ["copy", "--quiet", source, `containers-storage:${place}${local}`]);
      await run("buildah", args);
      return args;
    } catch (error) {
      note(`buildah with ${driver}: ${String(error)}`);
    }
  }
  return undefined;
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await work();
  return (performance.now() - begun) / 1000;
}

export async function deployCached(stack: Stack): Promise<void> {
  await startUp(stack);
  const deploy = () => run(stack.helmr, ["deploy", project], { env: deployment(stack) });
  await deploy();
  const buildah = await prepareBuildah();
  if (!buildah) note("skipped: buildah_bud, buildah or skopeo is missing");
  const ours: number[] = [];
  const theirs: number[] = [];
  // The first of each only warms what there is to warm.
  for (let i = 0; i <= rounds; i++) {
    ours.push(await seconds(deploy));
    if (buildah) theirs.push(await seconds(() => run("buildah", buildah)));
  }
  // The figures after this one run the tasks of the bench again.
  await run(stack.helmr, ["deploy", "bench/project"], { env: deployment(stack) });
  const value = median(ours.slice(1));
  if (!buildah) return figure("deploy_cached", value, "s");
  figure("deploy_cached", value, "s", { name: "buildah_bud", value: median(theirs.slice(1)) });
}
