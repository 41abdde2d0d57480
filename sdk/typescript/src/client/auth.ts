import { given } from "./record.js";
import { tokenId } from "./token.js";
import type { TokenRef } from "./token.js";
import type { RequestOptions, Transport } from "./transport.js";

export interface PublicTokenOptions extends RequestOptions {
  /** What the holder may do: complete this one token. */
  scope: { type: "token.complete"; token: TokenRef };
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
  readonly scope: { readonly type: "token.complete"; readonly tokenId: string };
  readonly expiresAt: Date;
  readonly maxUses?: number;
  readonly createdAt: Date;
}

interface PublicTokenRecord {
  id: string;
  public_access_token: string;
  url?: string | null;
  scope: { type: "token.complete"; token_id: string };
  expires_at: string;
  max_uses?: number | null;
  created_at: string;
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
      scope: { type: scope.type, token_id: tokenId(scope.token) },
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
      scope: { type: made.scope.type, tokenId: made.scope.token_id },
      expiresAt: new Date(made.expires_at),
      createdAt: new Date(made.created_at),
      ...given({ url: made.url, maxUses: made.max_uses }),
    };
  }
}
