import { events, request } from "./api.js";
import type { ApiEvent, ApiEventOptions, ApiRequest } from "./api.js";
import { Auth } from "./auth.js";
import { Runs } from "./runs.js";
import { Schedules } from "./schedules.js";
import { Sessions } from "./sessions.js";
import { Tasks } from "./tasks.js";
import { Tokens } from "./tokens.js";
import { Transport } from "./transport.js";
import type { ClientOptions } from "./transport.js";
import { Workspaces } from "./workspaces.js";

export class HelmrClient {
  readonly tasks: Tasks;
  readonly runs: Runs;
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly schedules: Schedules;
  readonly auth: Auth;
  readonly workspaces: Workspaces;
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    const transport = new Transport(options);
    this.#transport = transport;
    this.tasks = new Tasks(() => transport);
    this.runs = new Runs(() => transport);
    this.sessions = new Sessions(() => transport);
    this.tokens = new Tokens(() => transport);
    this.schedules = new Schedules(() => transport);
    this.auth = new Auth(() => transport);
    this.workspaces = new Workspaces(() => transport);
  }

  /** Any route of the API by its path after `/api`, for what has no method of its own. */
  request<T>(method: string, path: string, options: ApiRequest = {}): Promise<T> {
    return request<T>(this.#transport, method, path, options);
  }

  /** Server-sent events of any route that has them, across reconnections. */
  events<T>(path: string, options: ApiEventOptions = {}): AsyncIterable<ApiEvent<T>> {
    return events<T>(this.#transport, path, options);
  }
}

/* Made at the first call, so that importing the package needs no server. */
let transport: Transport | undefined;
const fromEnvironment = (): Transport => (transport ??= new Transport({}));

export const tasks = new Tasks(fromEnvironment);
export const runs = new Runs(fromEnvironment);
export const sessions = new Sessions(fromEnvironment);
export const tokens = new Tokens(fromEnvironment);
export const schedules = new Schedules(fromEnvironment);
export const auth = new Auth(fromEnvironment);
export const workspaces = new Workspaces(fromEnvironment);
