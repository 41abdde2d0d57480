// What a process that stands by does ahead of a run. A module that does not load makes the process
// useless, as Node keeps the failure: the agent is told, and takes another.
import { failureOf } from "./failure.ts";
import { resolveIn } from "./hooks.ts";
import { loadAhead } from "./load.ts";
import type { APreload } from "./messages.ts";
import { blockOnOutput } from "./output.ts";
import { resolutionChain } from "./places.ts";
import { rehearse } from "./rehearsal.ts";
import { workdirOf } from "./run.ts";
import { fit } from "./text.ts";

const textLimit = 1024;

export async function preload(asked: APreload): Promise<Record<string, unknown>> {
  const began = performance.now();
  /* Before Node itself looks at its standard error, to see whether that has colours. */
  blockOnOutput();
  try {
    const code = await rehearse();
    if (code !== 0) throw new Error(`the rehearsal ended with ${code}`);
    if (asked.module) {
      resolveIn(resolutionChain(asked.workspacePath, workdirOf(asked)));
      await loadAhead(asked.module);
    }
    return { ok: 1, loadMs: Math.round(performance.now() - began) };
  } catch (error) {
    const { name, message } = failureOf(error);
    return { ok: 0, text: fit(`${name}: ${message}`, textLimit) };
  }
}
