// The program's side of a park: it is refused while anything but one wait is pending, else the
// main thread stops at the barrier until the agent lets it go on.
import { Barrier } from "./barrier.ts";
import type { Channel } from "./channel.ts";
import { decodeBody } from "./codec.ts";
import type { Frame } from "./codec.ts";
import { adoptIdentity } from "./context.ts";
import type { Identity } from "./context.ts";
import type { APark, AResume } from "./messages.ts";
import type { Operations } from "./operations.ts";
import { canReseed } from "./random.ts";
import { closeIdleSockets } from "./sockets.ts";
import { closeTcp } from "./tcp.ts";

/* Kept before task code could put something else in its place. */
const nextTurn = setImmediate;

export class Parking {
  readonly #channel: Channel;
  readonly #operations: Operations;
  readonly #identity: Identity;
  readonly #barrier = Barrier.find();

  constructor(channel: Channel, operations: Operations, identity: Identity) {
    this.#channel = channel;
    this.#operations = operations;
    this.#identity = identity;
  }

  asked(frame: Frame): void {
    const { number = 0n, withoutTcp = 0 } = decodeBody<APark>("A_PARK", frame.body);
    if (this.#isRefused(number)) return;
    closeIdleSockets();
    /* What is due now, such as the closing of those sockets, still happens. */
    nextTurn(() => this.#stop(number, withoutTcp !== 0));
  }

  get #busy(): string | undefined {
    if (this.#barrier === undefined) return "the agent gave no barrier";
    /* Parked, it could never be let go on. */
    if (!canReseed()) return "this Node cannot reseed its random numbers";
    return this.#operations.busy;
  }

  #isRefused(number: bigint): boolean {
    const reason = this.#busy;
    if (reason !== undefined) this.#channel.send("A_BUSY", { reason, number });
    return reason !== undefined;
  }

  #stop(number: bigint, withoutTcp: boolean): void {
    if (this.#isRefused(number)) return;
    const listenAgain = withoutTcp ? closeTcp() : undefined;
    this.#barrier?.stop(this.#operations.wait as bigint, number, (resume) => this.#resume(resume));
    listenAgain?.();
  }

  #resume(resume: AResume): void {
    adoptIdentity(this.#identity, resume.identity, resume.resumeVersion);
    this.#operations.settle(resume);
  }
}
