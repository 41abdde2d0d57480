// Tokens: values that somebody outside completes. Inside a run they are made through the run and
// can be waited for; elsewhere, and for everything else, through the default client.
import { record } from "./check.js";
import { tokens as client } from "./client/client.js";
import { idempotencyWords } from "./client/idempotency.js";
import { createdToken, tokenId } from "./client/token.js";
import type { CreatedToken, TokenRecord, TokenRef } from "./client/token.js";
import type { TokenCreateOptions, Tokens } from "./client/tokens.js";
import { metadata, tags } from "./labels.js";
import { isInsideRun, runRuntime } from "./runtime.js";
import { lazyWait, timeout, tokenRequest } from "./waits.js";
import type { LazyWait, TokenWaitOptions } from "./waits.js";

export interface TokenHandle extends CreatedToken {
  /** Only inside a run. */
  wait<T = unknown>(options?: TokenWaitOptions<T>): LazyWait<T>;
}

/** The default client's, with `wait` and with a `create` that knows the run it is in. */
export interface TokenFacade extends Pick<
  Tokens,
  "retrieve" | "list" | "listPage" | "complete" | "cancel"
> {
  create(options?: TokenCreateOptions): Promise<TokenHandle>;
  wait<T = unknown>(token: TokenRef, options?: TokenWaitOptions<T>): LazyWait<T>;
}

function wait<T>(token: TokenRef, options: TokenWaitOptions<T> = {}): LazyWait<T> {
  return lazyWait<T>("tokens.wait", tokenRequest("options", tokenId(token), options));
}

function handle(token: CreatedToken): TokenHandle {
  return { ...token, wait: (options) => wait(token, options) };
}

function createInRun(options: TokenCreateOptions): Promise<TokenHandle> {
  /* Others would choose another place than the run's own. */
  const given = record("options", options, ["timeout", "metadata", "tags", "idempotencyKey"]);
  const body = {
    timeout: timeout("options.timeout", given.timeout),
    metadata: metadata("options.metadata", given.metadata),
    tags: tags("options.tags", given.tags),
    ...idempotencyWords(options.idempotencyKey),
  };
  return runRuntime("tokens.create")
    .operate("token.create", body)
    .then((made) => handle(createdToken(made as TokenRecord)));
}

export const tokens: TokenFacade = Object.freeze({
  create: (options: TokenCreateOptions = {}) =>
    isInsideRun() ? createInRun(options) : client.create(options).then(handle),
  wait,
  retrieve: client.retrieve.bind(client),
  list: client.list.bind(client),
  listPage: client.listPage.bind(client),
  complete: client.complete.bind(client),
  cancel: client.cancel.bind(client),
});
