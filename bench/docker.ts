// A private dockerd with the same files as one image, where it is installed and starts.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { join } from "node:path";
import { folder, has, note, run, start, until } from "./host.ts";

const socket = `unix://${join(folder, "docker.sock")}`;

async function importImage(rootfs: string): Promise<void> {
  const tar = spawn("tar", ["-C", rootfs, "-c", "."], { stdio: ["ignore", "pipe", "ignore"] });
  const load = spawn("docker", ["-H", socket, "import", "-", "helmr-bench"], {
    stdio: [tar.stdout, "ignore", "inherit"],
  });
  const [code] = (await once(load, "exit")) as [number];
  if (code !== 0) throw new Error("docker import failed");
}

/** Starts dockerd; false when it cannot be used here. */
export async function startDocker(rootfs: string): Promise<boolean> {
  if (!(await has("dockerd")) || !(await has("docker"))) {
    note("skipped: docker_run, dockerd is not installed");
    return false;
  }
  const log = openSync(join(folder, "dockerd.log"), "a");
  const places = ["--data-root", "--exec-root", "--pidfile"].flatMap((flag) => [
    flag,
    join(folder, `docker${flag.slice(1)}`),
  ]);
  const network = ["--iptables=false", "--bridge=none"];
  start("dockerd", ["-H", socket, ...places, ...network], { stdio: ["ignore", log, log] });
  try {
    await until("dockerd", () => run("docker", ["-H", socket, "info"]), 20_000);
    await importImage(rootfs);
    return true;
  } catch (error) {
    note(`skipped: docker_run, ${String(error)}`);
    return false;
  }
}

export const dockerNode = (program: string) =>
  run("docker", [
    ...["-H", socket, "run", "--rm", "--network", "none"],
    ...["helmr-bench", "node", "-e", program],
  ]);

/** A container that only waits, where a dockerd of our own answers; its name, or nothing. */
export async function startDockerBox(rootfs: string | undefined): Promise<string | undefined> {
  if (!rootfs || !(await startDocker(rootfs))) return undefined;
  const args = ["-H", socket, "run", "--detach", "--network", "none", "helmr-bench", "sleep", "infinity"];
  return (await run("docker", args)).trim();
}

export const dockerExec = (box: string) => run("docker", ["-H", socket, "exec", box, "true"]);
