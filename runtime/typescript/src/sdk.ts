// The one door between adapter and SDK. Task code brings its own copy of the package; what the two
// share is named by symbols, and these are the same functions over the same symbols.
export { definitionOf, shared } from "../../../sdk/typescript/src/brand.ts";
export { taskWait } from "../../../sdk/typescript/src/context.ts";
export { taskEmit } from "../../../sdk/typescript/src/emit.ts";
export {
  ConcurrentWaitError,
  PayloadSchemaValidationError,
  WaitCancelledError,
} from "../../../sdk/typescript/src/errors.ts";
export { parse } from "../../../sdk/typescript/src/schema.ts";
export type { Config } from "../../../sdk/typescript/src/config.ts";
export type { TaskContext } from "../../../sdk/typescript/src/context.ts";
export type { ImageDefinition, ImageStep } from "../../../sdk/typescript/src/image.ts";
export type { DefinitionRegistry, QueueDefinition } from "../../../sdk/typescript/src/queue.ts";
export type { RunRuntime, Settlement } from "../../../sdk/typescript/src/runtime.ts";
export type { StandardSchemaV1 } from "../../../sdk/typescript/src/schema.ts";
export type { SandboxDefinition } from "../../../sdk/typescript/src/sandbox.ts";
export type { SecretDefinition } from "../../../sdk/typescript/src/secret.ts";
export type { StreamDefinition } from "../../../sdk/typescript/src/stream_definition.ts";
export type { TaskDefinition } from "../../../sdk/typescript/src/task.ts";
