// A token as the server shows it: something that a person or a program outside answers, once.
import { date, given } from "./record.js";

export type TokenStatus = "pending" | "completed" | "cancelled" | "expired";

export interface Token {
  readonly id: string;
  readonly status: TokenStatus;
  readonly timeoutAt?: Date;
  /** What it was completed with. */
  readonly data?: unknown;
  readonly tags: readonly string[];
  readonly metadata: Record<string, unknown>;
  readonly waitId?: string;
  readonly runId?: string;
  readonly completedBy?: { readonly type: string; readonly id: string; readonly name?: string };
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly completedAt?: Date;
}

/** With the two ways to complete it from outside; nobody is shown them again. */
export interface CreatedToken extends Token {
  readonly callbackUrl: string;
  readonly publicAccessToken: string;
}

/** A token or its id; for completing also the id of the wait on it. */
export type TokenRef = string | { readonly id: string };

export const tokenId = (token: TokenRef): string => (typeof token === "string" ? token : token.id);

export type TokenRecord = Record<string, any>;

export function tokenSnapshot(token: TokenRecord): Token {
  return {
    id: token.id,
    status: token.status,
    tags: token.tags ?? [],
    metadata: token.metadata ?? {},
    createdAt: new Date(token.created_at),
    updatedAt: new Date(token.updated_at),
    /* A null answer is an answer. */
    ...(token.status === "completed" && { data: token.data ?? null }),
    ...given({
      timeoutAt: date(token.timeout_at),
      waitId: token.wait_id as string | null | undefined,
      runId: token.run_id as string | null | undefined,
      completedBy: token.completed_by as Token["completedBy"],
      completedAt: date(token.completed_at),
    }),
  };
}

export function createdToken(token: TokenRecord): CreatedToken {
  return {
    ...tokenSnapshot(token),
    callbackUrl: token.callback_url,
    publicAccessToken: token.public_access_token,
  };
}
