// The evaluated project as JSON: what the server records and the image builder works from.
import { lstatSync } from "node:fs";
import type {
  ImageDefinition,
  ImageStep,
  QueueDefinition,
  SandboxDefinition,
  StreamDefinition,
  TaskDefinition,
} from "../sdk.ts";
import { Fault } from "./fault.ts";
import { payloadSchema } from "./payload_schema.ts";
import { schemaFingerprint } from "./schema_fingerprint.ts";

export interface FoundTask {
  readonly file: string;
  readonly exportName: string;
  readonly definition: TaskDefinition;
}

export interface Project {
  readonly root: string;
  readonly name: string;
  readonly dependencies: readonly string[];
  readonly tasks: readonly FoundTask[];
  readonly queues: readonly QueueDefinition[];
  readonly streams: readonly StreamDefinition[];
}

function retryObject(policy: TaskDefinition["retry"]): object | null {
  if (policy === undefined) return null;
  if (policy.backoff === undefined) return { enabled: policy.enabled };
  const { minMs, maxMs, factor, jitter } = policy.backoff;
  return {
    enabled: policy.enabled,
    max_attempts: policy.maxAttempts,
    backoff: { min_ms: minMs, max_ms: maxMs, factor, jitter },
  };
}

function taskObject({ file, exportName, definition }: FoundTask): object {
  return {
    id: definition.id,
    file_path: file,
    export_name: exportName,
    sandbox_id: definition.sandbox.id,
    accepts_payload: definition.acceptsPayload,
    max_duration_seconds: definition.maxDurationSeconds,
    queue: definition.queue ?? `task/${definition.id}`,
    ttl: definition.ttl ?? null,
    retry: retryObject(definition.retry),
    secrets: definition.secrets,
    payload_schema: definition.payload && payloadSchema(definition.payload),
    /* A copy of the package from before them has none. */
    schedules: (definition.schedules ?? []).map(({ cron, timezone, secretBindings }) => ({
      cron,
      timezone,
      secret_bindings: secretBindings,
    })),
  };
}

function sandboxObject(sandbox: SandboxDefinition): object {
  return {
    id: sandbox.id,
    image_id: sandbox.image?.id,
    mount_path: sandbox.mountPath,
    cpu: sandbox.cpu,
    memory_mib: sandbox.memoryMiB,
    disk_mib: sandbox.diskMiB,
    network: sandbox.network,
  };
}

function stepObject(step: ImageStep): object {
  if (step.kind === "run")
    return {
      ...step,
      cache: step.cache.map(({ mountPath, cache }) => ({ mount_path: mountPath, cache })),
      secrets: step.secrets.map(({ mountPath, secret }) => ({ mount_path: mountPath, secret })),
    };
  return "image" in step ? { ...step, image: step.image.id } : step;
}

/** Of one kind, by id; the same id must always mean the same thing. */
class Definitions {
  readonly #kind: string;
  readonly #byId = new Map<string, { object: object; json: string }>();

  constructor(kind: string) {
    this.#kind = kind;
  }

  add(id: string, object: object, user: FoundTask): boolean {
    const json = JSON.stringify(object);
    const known = this.#byId.get(id);
    if (known !== undefined && known.json !== json)
      throw new Fault(
        "task_invalid",
        `${user.file}: ${this.#kind} "${id}" of task "${user.definition.id}" is defined twice ` +
          `and differently; give one of them another id`,
        { file: user.file },
      );
    if (known === undefined) this.#byId.set(id, { object, json });
    return known === undefined;
  }

  get all(): object[] {
    return [...this.#byId.values()].map(({ object }) => object);
  }
}

/** A copied path must be in the archive, of the right type, and not a link. */
function checkSource(root: string, step: ImageStep, image: string, user: FoundTask): void {
  if (step.kind !== "copy" || !("source" in step)) return;
  const isFile = "file" in step.source;
  const path = "file" in step.source ? step.source.file : step.source.directory;
  const found = lstatSync(`${root}/${path}`, { throwIfNoEntry: false });
  if (isFile ? found?.isFile() : found?.isDirectory()) return;
  const what =
    found === undefined ? "is not in the project" : `is not a ${isFile ? "file" : "directory"}`;
  throw new Fault("task_invalid", `${user.file}: image "${image}" copies ${path}, which ${what}`, {
    file: user.file,
  });
}

function addImage(into: Definitions, root: string, image: ImageDefinition, user: FoundTask): void {
  for (const step of image.steps) {
    checkSource(root, step, image.id, user);
    if ("image" in step) addImage(into, root, step.image, user);
  }
  into.add(image.id, { id: image.id, steps: image.steps.map(stepObject) }, user);
}

function checkQueue(queues: ReadonlyMap<string, unknown>, { file, definition }: FoundTask): void {
  if (definition.queue === undefined || queues.has(definition.queue)) return;
  throw new Fault(
    "task_invalid",
    `${file}: task "${definition.id}" names queue "${definition.queue}", ` +
      `which no module declares; declare it with queue({ name: "${definition.queue}" })`,
    { file },
  );
}

function queueLimits(queues: readonly QueueDefinition[]): Map<string, number | null> {
  const limits = new Map<string, number | null>();
  for (const { name, concurrencyLimit } of queues) {
    if (limits.has(name) && limits.get(name) !== concurrencyLimit)
      throw new Fault("task_invalid", `queue "${name}" is declared twice with different limits`);
    limits.set(name, concurrencyLimit);
  }
  return limits;
}

interface StreamObject {
  readonly name: string;
  readonly direction: string;
  schema_fingerprint?: string;
}

/** Several modules may declare the same one; the first schema is the one that is told. */
function streamObjects(streams: readonly StreamDefinition[]): StreamObject[] {
  const byName = new Map<string, StreamObject>();
  for (const { name, direction, schema } of streams) {
    const known = byName.get(name) ?? { name, direction };
    if (known.direction !== direction)
      throw new Fault(
        "task_invalid",
        `stream "${name}" is declared as input and as output; give one of them another name`,
      );
    if (schema !== undefined) known.schema_fingerprint ??= schemaFingerprint(schema);
    byName.set(name, known);
  }
  return [...byName.values()];
}

export function manifest(project: Project): object {
  const sandboxes = new Definitions("sandbox");
  const images = new Definitions("image");
  const limits = queueLimits(project.queues);
  for (const task of project.tasks) {
    const { sandbox } = task.definition;
    checkQueue(limits, task);
    sandboxes.add(sandbox.id, sandboxObject(sandbox), task);
    if (sandbox.image) addImage(images, project.root, sandbox.image, task);
  }
  return {
    project: project.name,
    tasks: project.tasks.map(taskObject),
    sandboxes: sandboxes.all,
    images: images.all,
    queues: [...limits].map(([name, concurrency_limit]) => ({ name, concurrency_limit })),
    streams: streamObjects(project.streams),
    dependencies: project.dependencies,
  };
}
