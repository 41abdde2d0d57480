import { brand, definitionOf, shared } from "./brand.js";
import { integer, record } from "./check.js";
import { name } from "./names.js";
import type { StreamDefinition } from "./stream_definition.js";

export interface QueueDefinition {
  readonly name: string;
  readonly concurrencyLimit: number | null;
}

/** While the adapter indexes a project it collects here what module code declares. */
export interface DefinitionRegistry {
  queues: QueueDefinition[];
  streams: StreamDefinition[];
}

const registry = shared<DefinitionRegistry>("DefinitionRegistry");

export const queueDefinition = (value: unknown): QueueDefinition | undefined =>
  definitionOf<QueueDefinition>(value, "QueueDefinition");

/** A line in which runs of several tasks wait for each other. */
export function queue(config: { name: string; concurrencyLimit?: number | null }): QueueDefinition {
  const given = record("queue", config, ["name", "concurrencyLimit"]);
  const limit = given.concurrencyLimit ?? null;
  const definition: QueueDefinition = {
    name: name("queue.name", given.name, "queue"),
    concurrencyLimit:
      limit === null ? null : integer("queue.concurrencyLimit", limit, 1, 0x7fff_ffff),
  };
  brand(definition, "QueueDefinition", definition);
  registry.value?.queues.push(definition);
  return Object.freeze(definition);
}
