// An ordinary user of this host, made for one test file, and what it runs.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import type { Scope } from "./scope.ts";

const binary = process.env.HELMR as string;
const image = "node:24-bookworm-slim";

export class Ordinary {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;

  constructor(name: string) {
    const id = (flag: string): number => Number(execFileSync("id", [flag, name], { encoding: "utf8" }));
    this.name = name;
    this.uid = id("-u");
    this.gid = id("-g");
  }

  /** The words before a command that make it this user's, in a network namespace if one is named. */
  prefix(netns?: string): [string, ...string[]] {
    const become = ["setpriv", `--reuid=${this.uid}`, `--regid=${this.gid}`, "--clear-groups"] as const;
    return netns ? ["ip", "netns", "exec", netns, ...become] : [...become];
  }

  /** Settings of root's that this user could not read are left out. */
  env(home: string, env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
    const { HELMR_REGISTRY_AUTH_FILE: _, HELMR_CONFIG_DIR: __, ...rest } = env;
    return { ...rest, HOME: home };
  }

  /** A folder of its own. */
  folder(path: string): void {
    mkdirSync(path, { recursive: true });
    chownSync(path, this.uid, this.gid);
  }

  /** The base image in a worker's store: what root made, unpacked by this user. */
  giveBaseImage(workDir: string): void {
    const archive = `${workDir}.tar`;
    const cache = process.env.SYSTEM_IMAGE_CACHE as string;
    execFileSync(binary, ["image", "export", "--data-dir", cache, image, archive]);
    chmodSync(archive, 0o644);
    this.folder(workDir);
    const [file, ...words] = this.prefix();
    const env = { ...this.env(workDir), HELMR_WORKER_WORK_DIR: workDir, HELMR_DATA_DIR: workDir };
    execFileSync(file, [...words, binary, "image", "bootstrap", "--from", archive, image], { env });
  }

  /** The commands of all its processes. */
  processes(): string[] {
    const isHis = (pid: string): boolean => {
      try {
        const status = readFileSync(`/proc/${pid}/status`, "utf8");
        const isLive = !/^State:\s+Z/m.test(status);
        return isLive && new RegExp(`^Uid:\\s+${this.uid}\\s`, "m").test(status);
      } catch {
        return false; // It ended meanwhile.
      }
    };
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && isHis(name))
      .map((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " "));
  }
}

/** Why there is no such user here, or the user, which lives as long as the scope. */
export function makeOrdinary(t: Scope): Ordinary | string {
  const name = `helmr-test-${process.pid}`;
  if (process.getuid?.() !== 0) return "only root can make a user";
  const made = spawnSync("useradd", ["-r", "-M", name], { encoding: "utf8" });
  if (made.error || made.status !== 0) return `no user can be made: ${made.error ?? made.stderr}`;
  t.after(() => spawnSync("userdel", [name]));
  const user = new Ordinary(name);
  const [file, ...words] = user.prefix();
  if (spawnSync(file, [...words, binary, "--version"]).status !== 0)
    return `${binary} cannot be run by another user`;
  return user;
}
