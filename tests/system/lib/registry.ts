// Debian's docker-registry on loopback: open, with a password, or with TLS by an authority that
// nobody else trusts.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { freePort, until } from "./own.ts";
import { Part } from "./part.ts";
import type { Scope } from "./scope.ts";

export const programs = ["docker-registry", "htpasswd", "skopeo"];

/** Why tests of registries cannot run here, or undefined. */
export function withoutRegistry(): string | undefined {
  const missing = programs.filter((name) => !has(name));
  return missing.length ? `not installed: ${missing.join(", ")}` : undefined;
}

export function has(program: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`]);
    return true;
  } catch {
    return false;
  }
}

export interface RegistryOptions {
  readonly user?: string;
  readonly password?: string;
  readonly tls?: boolean;
}

export interface Registry {
  readonly host: string;
  readonly folder: string;
  readonly origin: string;
  /** Settings for a Helmr that may use it. */
  readonly env: Record<string, string>;
  /** What it was asked for since it was started: method, path and answer. */
  requests(): string[];
}

function openssl(folder: string, ...args: string[]): void {
  execFileSync("openssl", args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
}

/* An authority, and a certificate of it for 127.0.0.1 and localhost. */
function certify(folder: string): void {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  writeFileSync(`${folder}/names`, "subjectAltName=IP:127.0.0.1,DNS:localhost\n");
  openssl(
    folder,
    ...["req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2"],
    ...["-subj", "/CN=Helmr test authority"],
  );
  openssl(
    folder,
    ...["req", ...key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1"],
  );
  openssl(
    folder,
    ...["x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"],
    ...["-out", "server.crt", "-days", "2", "-extfile", "names"],
  );
}

function authFile(folder: string, host: string, user: string, password: string): string {
  const path = `${folder}/config.json`;
  const auth = Buffer.from(`${user}:${password}`).toString("base64");
  writeFileSync(path, JSON.stringify({ auths: { [host]: { auth } } }), { mode: 0o600 });
  return path;
}

function configuration(folder: string, host: string, options: RegistryOptions): object {
  return {
    version: "0.1",
    log: { accesslog: { disabled: false }, level: "warn", formatter: "text" },
    storage: { filesystem: { rootdirectory: `${folder}/store` }, delete: { enabled: true } },
    http: {
      addr: host,
      secret: "one registry, one secret",
      ...(options.tls && {
        tls: { certificate: `${folder}/server.crt`, key: `${folder}/server.key` },
      }),
    },
    ...(options.user && { auth: { htpasswd: { realm: "tests", path: `${folder}/htpasswd` } } }),
  };
}

/** Lives as long as the test or suite. */
export async function startRegistry(t: Scope, options: RegistryOptions = {}): Promise<Registry> {
  const folder = mkdtempSync(`${tmpdir()}/helmr-registry-`);
  const host = `127.0.0.1:${await freePort()}`;
  const env: Record<string, string> = {};
  mkdirSync(`${folder}/store`);
  if (options.user !== undefined) {
    const { user, password = "" } = options;
    writeFileSync(`${folder}/htpasswd`, execFileSync("htpasswd", ["-nbB", user, password]));
    env.HELMR_REGISTRY_AUTH_FILE = authFile(folder, host, user, password);
  }
  if (options.tls) {
    certify(folder);
    env.HELMR_REGISTRY_CA_FILE = `${folder}/ca.crt`;
  }
  // JSON is YAML.
  writeFileSync(`${folder}/config.yml`, JSON.stringify(configuration(folder, host, options)));
  const log = `${folder}/log`;
  const part = new Part("docker-registry", ["serve", `${folder}/config.yml`], process.env, log);
  t.after(async () => {
    if (part.isRunning) await part.end("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  part.start();
  await until("a registry", () => {
    if (!part.isRunning) throw new Error(readFileSync(log, "utf8"));
    return listens(host);
  });
  const requests = (): string[] =>
    [...readFileSync(log, "utf8").matchAll(/"([A-Z]+ \S+) HTTP\/1\.1" (\d+)/g)].map(
      ([, what, status]) => `${what} ${status}`,
    );
  return { host, folder, origin: `${options.tls ? "https" : "http"}://${host}`, env, requests };
}

async function listens(host: string): Promise<boolean> {
  const [name, port] = host.split(":") as [string, string];
  const { connect } = await import("node:net");
  return new Promise((resolve) => {
    const socket = connect(Number(port), name);
    socket.once("connect", () => (socket.destroy(), resolve(true)));
    socket.once("error", () => resolve(false));
  });
}

/** What skopeo says about an image of a registry. */
export function skopeoInspect(registry: Registry, image: string): any {
  const flags =
    registry.env.HELMR_REGISTRY_CA_FILE !== undefined
      ? ["--cert-dir", certificateFolder(registry)]
      : ["--tls-verify=false"];
  const auth = registry.env.HELMR_REGISTRY_AUTH_FILE;
  if (auth) flags.push("--authfile", auth);
  const out = execFileSync("skopeo", ["inspect", ...flags, `docker://${registry.host}/${image}`]);
  return JSON.parse(out.toString());
}

/* Where skopeo looks for authorities: files that end in .crt, and no other of ours. */
function certificateFolder({ folder }: Registry): string {
  mkdirSync(`${folder}/certs`, { recursive: true });
  writeFileSync(`${folder}/certs/ca.crt`, readFileSync(`${folder}/ca.crt`));
  return `${folder}/certs`;
}
