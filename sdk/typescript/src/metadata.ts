import { byteLength, record, refuse, text } from "./check.js";
import { runRuntime } from "./runtime.js";

const totalBytes = 256 * 1024;
const keyBytes = 512;

function key(field: string, value: unknown): string {
  const given = text(field, value);
  if (byteLength(given) > keyBytes) refuse(field, `must not be over ${keyBytes} bytes`);
  return given;
}

/** Read back from its JSON: what is sent does not change after the call. */
function json(field: string, value: unknown): unknown {
  const written = JSON.stringify(value) as string | undefined;
  if (written === undefined) refuse(field, "has no form in JSON");
  if (byteLength(written) > totalBytes) refuse(field, "must not be over 256 KiB of JSON");
  return JSON.parse(written);
}

async function change(name: string, body: object): Promise<void> {
  await runRuntime(`metadata.${name}`).operate(`metadata.${name}`, body);
}

/** What others see of the run while it goes on. Changes are made in the order of the calls. */
export const metadata = Object.freeze({
  set: (name: string, value: unknown): Promise<void> =>
    change("set", { key: key("key", name), value: json("value", value) }),
  /** Shallow: a key that is given replaces the one that was there. */
  patch: (values: Record<string, unknown>): Promise<void> => {
    for (const name of Object.keys(record("values", values))) key("a key", name);
    return change("patch", { patch: json("values", values) });
  },
  /** A key that is not there counts from 0. */
  increment: (name: string, amount = 1): Promise<void> => {
    if (!Number.isFinite(amount)) refuse("amount", "must be a finite number");
    return change("increment", { key: key("key", name), amount });
  },
});
