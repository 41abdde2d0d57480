// What a run waits for, as the server shows it.
import { date, given } from "./record.js";

export type WaitKind = "stream" | "timer" | "token";
export type WaitCondition = "pending" | "completed" | "expired" | "cancelled" | "failed";
/** Where the sandbox is meanwhile: alive, being saved, saved, coming back, or done with the wait. */
export type WaitSuspension =
  | "hot"
  | "checkpointing"
  | "parked"
  | "resume_pending"
  | "resuming"
  | "released"
  | "failed"
  | "cancelled";

export interface Wait {
  readonly id: string;
  readonly runId: string;
  readonly attemptNumber: number;
  readonly kind: WaitKind;
  readonly condition: WaitCondition;
  readonly suspension: WaitSuspension;
  readonly params: Record<string, unknown>;
  readonly metadata: Record<string, unknown>;
  readonly tags: readonly string[];
  readonly timeout?: string;
  readonly timeoutAt?: Date;
  readonly tokenId?: string;
  readonly checkpoint?: {
    readonly id: string;
    readonly state: string;
    readonly sizeBytes: number;
  };
  readonly createdAt: Date;
  readonly settledAt?: Date;
  readonly releasedAt?: Date;
}

export type WaitRecord = Record<string, any>;

export function waitSnapshot(wait: WaitRecord): Wait {
  const { checkpoint } = wait;
  return {
    id: wait.id,
    runId: wait.run_id,
    attemptNumber: wait.attempt_number,
    kind: wait.kind,
    condition: wait.condition,
    suspension: wait.suspension,
    params: wait.params ?? {},
    metadata: wait.metadata ?? {},
    tags: wait.tags ?? [],
    createdAt: new Date(wait.created_at),
    ...given({
      timeout: wait.timeout as string | null | undefined,
      timeoutAt: date(wait.timeout_at),
      tokenId: wait.token_id as string | null | undefined,
      checkpoint: checkpoint && {
        id: checkpoint.id,
        state: checkpoint.state,
        sizeBytes: checkpoint.size_bytes,
      },
      settledAt: date(wait.settled_at),
      releasedAt: date(wait.released_at),
    }),
  };
}
