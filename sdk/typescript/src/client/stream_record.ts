// A record of a session's stream as the server shows it.
import { given } from "./record.js";

export interface StreamRecord<T = unknown> {
  readonly id: string;
  readonly streamId: string;
  /** 1, 2, … in each stream of a session; the cursor to go on after this record. */
  readonly sequence: number;
  readonly data: T;
  readonly correlationId?: string;
  readonly contentType: string;
  readonly createdAt: Date;
}

/** A record that was just written, or was there before under the same idempotency key. */
export interface AppendedRecord<T = unknown> extends StreamRecord<T> {
  readonly isCached: boolean;
  /** What became of a session whose run was over when input came. */
  readonly continuationStatus?: "accepted_run_pending" | "created" | "duplicate";
}

export type StreamRecordRecord = Record<string, any>;

export function streamRecord<T>(record: StreamRecordRecord): StreamRecord<T> {
  return {
    id: record.id,
    streamId: record.stream_id,
    sequence: record.sequence,
    data: record.data,
    contentType: record.content_type,
    createdAt: new Date(record.created_at),
    ...given({ correlationId: record.correlation_id as string | null | undefined }),
  };
}

export interface AppendAnswer {
  record: StreamRecordRecord;
  is_cached: boolean;
  continuation_status?: AppendedRecord["continuationStatus"] | null;
}

export function appendedRecord<T>(answer: AppendAnswer): AppendedRecord<T> {
  return {
    ...streamRecord<T>(answer.record),
    isCached: answer.is_cached,
    ...given({ continuationStatus: answer.continuation_status }),
  };
}
