// Where a program stands still while it is parked: blocked in a read, so that no line of the task
// runs between the copy of its memory and the moment its new surroundings are in place.
import { fstatSync } from "node:fs";
import { Channel } from "./channel.ts";
import { decodeBody } from "./codec.ts";
import type { Frame } from "./codec.ts";
import { adoptVariable } from "./environment.ts";
import type { AResume, AReseed, AThaw } from "./messages.ts";
import { reseed } from "./random.ts";
import { destroySockets } from "./sockets.ts";

const descriptor = 4;

function isSocket(fd: number): boolean {
  try {
    return fstatSync(fd).isSocket();
  } catch {
    return false;
  }
}

/* Asked before the task could open something under this number. */
const isGiven = isSocket(descriptor);

/** Answers a wish to reseed on the channel it came by. */
export function answerReseed(channel: Channel, frame: Frame): void {
  const { entropy } = decodeBody<AReseed>("A_RESEED", frame.body);
  const isDone = reseed(entropy);
  destroySockets();
  channel.send("A_RESEEDED", { ok: isDone ? 1 : 0 });
}

export class Barrier {
  readonly #channel = new Channel(descriptor);

  /** Undefined when the agent gave none. */
  static find(): Barrier | undefined {
    return isGiven ? new Barrier() : undefined;
  }

  /** Stops at the pending wait `op` until it is let go on, with its answer consumed or without. */
  stop(op: bigint, number: bigint, consume: (resume: AResume) => void): void {
    this.#channel.send("A_PARKED", { op, number });
    for (;;) {
      const frame = this.#channel.receive();
      if (frame.name === "A_RESEED") answerReseed(this.#channel, frame);
      else if (frame.name === "A_ENV") adoptVariable(frame);
      else if (frame.name === "A_THAW") {
        /* One for an earlier park, which ended before it came, is not for this one. */
        const thaw = decodeBody<AThaw>(frame.name, frame.body);
        if (!thaw.number || thaw.number === number) return;
      } else if (frame.name === "A_RESUME") {
        const resume = decodeBody<AResume>(frame.name, frame.body);
        if (this.#consume(op, resume, consume)) return;
      } else throw new Error(`${frame.name} came at the barrier`);
    }
  }

  /** Whether the answer is this wait's. An earlier one's was taken: that is said again. */
  #consume(op: bigint, resume: AResume, consume: (resume: AResume) => void): boolean {
    if (resume.op > op) throw new Error(`operation ${resume.op} is resumed, ${op} waits`);
    if (resume.op === op) consume(resume);
    this.#channel.send("A_CONSUMED", { resumeVersion: resume.resumeVersion });
    return resume.op === op;
  }
}
