// The package registry that this machine's npm uses, when it can be reached at all.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface Outside {
  readonly registry: string;
  /** Who signs for it, when that is not one of those Node knows. */
  readonly authorities?: string;
  readonly skip?: string;
}

export async function outside(): Promise<Outside> {
  const asked = execFileSync("npm", ["config", "get", "registry"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const registry = asked.trim();
  const file = process.env.NODE_EXTRA_CA_CERTS;
  const authorities = file && readFileSync(file, "utf8");
  try {
    await fetch(registry, { signal: AbortSignal.timeout(10_000) });
    return { registry, ...(authorities && { authorities }) };
  } catch (error) {
    return { registry, skip: `the package registry cannot be reached: ${error}` };
  }
}
