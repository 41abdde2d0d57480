import { streamDefinition } from "../stream_definition.js";
import type { StreamRef } from "../stream_definition.js";
import { given } from "./record.js";
import { sessionName } from "./session.js";
import type { SessionRef } from "./session.js";
import { tokenId } from "./token.js";
import type { TokenRef } from "./token.js";
import type { RequestOptions, Transport } from "./transport.js";

interface StreamScope {
  session: SessionRef;
  /** Only with this correlation id. */
  correlationId?: string;
}

/** What the holder may do: complete one token, write to one input or read one output. */
export type PublicTokenScope =
  | { type: "token.complete"; token: TokenRef }
  | (StreamScope & { type: "session.input.send"; stream: StreamRef<"input", any> })
  | (StreamScope & { type: "session.output.read"; stream: StreamRef<"output", any> });

export interface PublicTokenOptions extends RequestOptions {
  scope: PublicTokenScope;
  /** 30 days from now unless given. */
  expiresAt?: Date | string;
  /** Any number unless given. */
  maxUses?: number;
}

export interface PublicToken {
  readonly id: string;
  readonly publicAccessToken: string;
  /** A page where a person can answer; the public access token is in its fragment. */
  readonly url?: string;
  readonly scope: {
    readonly type: PublicTokenScope["type"];
    readonly tokenId?: string;
    readonly sessionId?: string;
    readonly externalId?: string;
    readonly stream?: string;
    readonly correlationId?: string;
  };
  readonly expiresAt: Date;
  readonly maxUses?: number;
  readonly createdAt: Date;
}

interface PublicTokenRecord {
  id: string;
  public_access_token: string;
  url?: string | null;
  scope: { type: PublicTokenScope["type"] } & Record<string, string | null | undefined>;
  expires_at: string;
  max_uses?: number | null;
  created_at: string;
}

function scopeWords(scope: PublicTokenScope): object {
  if (scope.type === "token.complete") return { type: scope.type, token_id: tokenId(scope.token) };
  const direction = scope.type === "session.input.send" ? "input" : "output";
  const { id, externalId } = sessionName(scope.session);
  return {
    type: scope.type,
    session_id: id,
    external_id: id === undefined ? externalId : undefined,
    stream: streamDefinition(scope.stream, direction).name,
    correlation_id: scope.correlationId,
  };
}

export class Auth {
  readonly #transport: () => Transport;

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  /** A credential to give away: it can do one thing, for a while. */
  async createPublicToken(options: PublicTokenOptions): Promise<PublicToken> {
    const { scope, expiresAt, maxUses, ...request } = options;
    const body = {
      scope: scopeWords(scope),
      expires_at: expiresAt === undefined ? undefined : new Date(expiresAt).toISOString(),
      max_uses: maxUses,
    };
    const made = await this.#transport().json<PublicTokenRecord>("POST", "/public-access-tokens", {
      ...request,
      body,
    });
    return {
      id: made.id,
      publicAccessToken: made.public_access_token,
      scope: {
        type: made.scope.type,
        ...given({
          tokenId: made.scope.token_id,
          sessionId: made.scope.session_id,
          externalId: made.scope.external_id,
          stream: made.scope.stream,
          correlationId: made.scope.correlation_id,
        }),
      },
      expiresAt: new Date(made.expires_at),
      createdAt: new Date(made.created_at),
      ...given({ url: made.url, maxUses: made.max_uses }),
    };
  }
}
