import { dayMs, duration, durationText } from "../duration.js";
import type { DurationInput } from "../duration.js";
import { idempotencyWords } from "./idempotency.js";
import type { IdempotencyKey } from "./idempotency.js";
import { createdToken, tokenId, tokenSnapshot } from "./token.js";
import type { CreatedToken, Token, TokenRecord, TokenRef, TokenStatus } from "./token.js";
import type { RequestOptions, Transport } from "./transport.js";

export interface TokenCreateOptions extends RequestOptions {
  timeout?: DurationInput;
  metadata?: Record<string, unknown>;
  tags?: string[];
  idempotencyKey?: string | IdempotencyKey;
}

export interface TokenListOptions extends RequestOptions {
  status?: TokenStatus;
  limit?: number;
  cursor?: string;
}

export interface TokenCompleteOptions extends RequestOptions {
  publicAccessToken?: string;
}

export interface TokenCancelOptions extends RequestOptions {
  reason?: string;
}

export interface TokenPage {
  readonly tokens: Token[];
  readonly nextCursor?: string;
}

export interface TokenCompletion {
  /** "already_completed": with equal data, by this or another caller. */
  readonly status: "completed" | "already_completed";
  readonly token: Token;
}

interface CompletionRecord {
  status: TokenCompletion["status"];
  token: TokenRecord;
}

export class Tokens {
  readonly #transport: () => Transport;

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  async create(options: TokenCreateOptions = {}): Promise<CreatedToken> {
    const { timeout, metadata, tags, idempotencyKey, ...request } = options;
    const length =
      timeout === undefined ? undefined : durationText(duration("timeout", timeout, 1, 365 * dayMs));
    const body = { timeout: length, metadata, tags, ...idempotencyWords(idempotencyKey) };
    const made = await this.#transport().json<TokenRecord>("POST", "/tokens", { ...request, body });
    return createdToken(made);
  }

  async retrieve(token: TokenRef, options: RequestOptions = {}): Promise<Token> {
    const path = `/tokens/${encodeURIComponent(tokenId(token))}`;
    return tokenSnapshot(await this.#transport().json<TokenRecord>("GET", path, options));
  }

  async list(options: TokenListOptions = {}): Promise<Token[]> {
    return (await this.listPage(options)).tokens;
  }

  async listPage(options: TokenListOptions = {}): Promise<TokenPage> {
    const { status, limit, cursor, ...request } = options;
    const page = await this.#transport().json<{ tokens: TokenRecord[]; next_cursor?: string }>(
      "GET",
      "/tokens",
      { ...request, query: { status, limit, cursor } },
    );
    return {
      tokens: page.tokens.map(tokenSnapshot),
      ...(page.next_cursor && { nextCursor: page.next_cursor }),
    };
  }

  /** With a public access token no API key is sent: the token is all that is needed. */
  async complete(
    token: TokenRef,
    data?: unknown,
    options: TokenCompleteOptions = {},
  ): Promise<TokenCompletion> {
    const path = `/tokens/${encodeURIComponent(tokenId(token))}/complete`;
    const call = { ...options, body: { data } };
    const answer = await this.#transport().json<CompletionRecord>("POST", path, call);
    return { status: answer.status, token: tokenSnapshot(answer.token) };
  }

  async cancel(token: TokenRef, options: TokenCancelOptions = {}): Promise<Token> {
    const { reason, ...request } = options;
    const path = `/tokens/${encodeURIComponent(tokenId(token))}/cancel`;
    const call = { ...request, body: { reason } };
    return tokenSnapshot(await this.#transport().json<TokenRecord>("POST", path, call));
  }
}
