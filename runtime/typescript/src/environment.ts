import { decodeBody } from "./codec.ts";
import type { Frame } from "./codec.ts";
import type { AEnv } from "./messages.ts";

/** A variable that came as a message: it is this process's own, and its children's, from now on. */
export function adoptVariable(frame: Frame): void {
  const { name, value } = decodeBody<AEnv>("A_ENV", frame.body);
  process.env[name] = Buffer.from(value).toString();
}
