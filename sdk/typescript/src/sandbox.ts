import { brand, definitionOf } from "./brand.js";
import { integer, record, refuse } from "./check.js";
import { imageDefinition } from "./image.js";
import type { ImageBuilder, ImageDefinition } from "./image.js";
import { name } from "./names.js";
import { network, openNetwork } from "./network.js";
import type { NetworkDefinition, NetworkOptions } from "./network.js";
import { mountPath } from "./paths.js";

export interface ResourceOptions {
  cpu?: number;
  memory?: string | number;
  disk?: string | number;
}

export interface SandboxBuilder {
  image(img: ImageBuilder): SandboxBuilder;
  workspace(mountPath?: string): SandboxBuilder;
  resources(r: ResourceOptions): SandboxBuilder;
  network(n: NetworkOptions): SandboxBuilder;
}

export interface SandboxDefinition {
  readonly id: string;
  readonly image: ImageDefinition | undefined;
  readonly mountPath: string;
  readonly cpu: number;
  readonly memoryMiB: number;
  readonly diskMiB: number;
  readonly network: NetworkDefinition;
}

/* What the server can record; whether a worker has it is another question. */
const mostCpu = 4096;
const mostMiB = 64 * 1024 * 1024;
const unitKiB: Record<string, number> = { ki: 1, mi: 1024, gi: 1024 * 1024 };

export const sandboxDefinition = (value: unknown): SandboxDefinition | undefined =>
  definitionOf<SandboxDefinition>(value, "SandboxBuilder");

function mebibytes(field: string, value: unknown, least: number): number {
  if (typeof value === "number") return integer(field, value, least, mostMiB);
  const match = typeof value === "string" ? /^(\d{1,15})(?:([KMG]i)B?)?$/i.exec(value) : null;
  if (!match) refuse(field, 'must be a size such as "512Mi" or "4GiB", or a number of MiB');
  const kib = Number(match[1]) * (unitKiB[(match[2] ?? "mi").toLowerCase()] as number);
  if (kib % 1024 !== 0) refuse(field, `must be whole MiB: ${JSON.stringify(value)}`);
  return integer(`${field} in MiB`, kib / 1024, least, mostMiB);
}

function resources(value: unknown): Partial<SandboxDefinition> {
  const { cpu, memory, disk } = record("resources", value, ["cpu", "memory", "disk"]);
  return {
    ...(cpu !== undefined && { cpu: integer("resources.cpu", cpu, 1, mostCpu) }),
    ...(memory !== undefined && { memoryMiB: mebibytes("resources.memory", memory, 128) }),
    ...(disk !== undefined && { diskMiB: mebibytes("resources.disk", disk, 1) }),
  };
}

function build(definition: SandboxDefinition): SandboxBuilder {
  const change = (part: Partial<SandboxDefinition>) => build({ ...definition, ...part });
  const builder: SandboxBuilder = {
    image(img) {
      const made = imageDefinition(img) ?? refuse("sandbox image", "must be made by image()");
      if (made.steps.length === 0) refuse(`image ${made.id}`, "must have a from step");
      return change({ image: made });
    },
    workspace: (path = "/workspace") =>
      change({ mountPath: mountPath("workspace mountPath", path) }),
    resources: (r) => change(resources(r)),
    network: (n) => change({ network: network(n) }),
  };
  return Object.freeze(brand(builder, "SandboxBuilder", Object.freeze(definition)));
}

/** The machine a task runs in: an image, a workspace mount, a size and a network. */
export function sandbox(id: string): SandboxBuilder {
  return build({
    id: name("sandbox id", id, "id"),
    image: undefined,
    mountPath: "/workspace",
    cpu: 2,
    memoryMiB: 2048,
    diskMiB: 8192,
    network: openNetwork,
  });
}
