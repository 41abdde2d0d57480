// One server and one credential. Every answer that is not a success becomes an error class.
import { AuthError, HelmrApiError, UnsupportedTransportError } from "../errors.js";
import { apiVersion, version } from "../version.js";

export interface ClientOptions {
  /** HELMR_API_URL unless given. */
  url?: string;
  /** HELMR_API_KEY unless given. */
  apiKey?: string;
  fetch?: typeof fetch;
}

export interface RequestOptions {
  signal?: AbortSignal;
  /** For a person's session; an API key has its own scope. */
  projectId?: string;
  environmentId?: string;
}

export type RawBody = NonNullable<RequestInit["body"]>;

export interface Call extends RequestOptions {
  query?: Record<string, string | number | undefined>;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, instead of a body. */
  bytes?: RawBody;
  headers?: Record<string, string>;
  /** All that is needed: no key is sent, and the token knows its own scope. */
  publicAccessToken?: string | undefined;
}

/** Those of a call's options that are about the request and not in its body. */
export function requestOf({ signal, projectId, environmentId }: RequestOptions): RequestOptions {
  return {
    ...(signal && { signal }),
    ...(projectId !== undefined && { projectId }),
    ...(environmentId !== undefined && { environmentId }),
  };
}

/** A variable of the program; there are none in a browser. */
const variable = (name: string): string | undefined => globalThis.process?.env?.[name];

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** Of the page this runs in; there is none in Node. */
const pageOrigin = (): string | undefined =>
  (globalThis as { location?: { origin?: string } }).location?.origin;

function baseUrl(given: string | undefined): string {
  const text = given ?? variable("HELMR_API_URL");
  if (!text) throw new UnsupportedTransportError("no server: give url or set HELMR_API_URL");
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new UnsupportedTransportError(`the server's address is not a URL: ${text}`);
  }
  if (url.search !== "" || url.hash !== "")
    throw new UnsupportedTransportError(
      `the server's address must not have a query or fragment: ${text}`,
    );
  /* A page's own server is as safe as the page. */
  if (url.origin === pageOrigin()) return url.href.replace(/\/+$/, "");
  if (url.protocol === "http:" && isLoopback(url.hostname))
    console.warn(`helmr: ${url.origin} is not encrypted; fine on this machine only`);
  else if (url.protocol !== "https:")
    throw new UnsupportedTransportError(
      `the server's address must be https, or http on this machine: ${text}`,
    );
  return url.href.replace(/\/+$/, "");
}

/** The part after /api, in the scope the caller named. */
function scoped(path: string, { projectId, environmentId, publicAccessToken }: Call): string {
  if (publicAccessToken !== undefined) return `/api/v1${path}`;
  if (projectId === undefined && environmentId === undefined) return `/api${path}`;
  if (projectId === undefined || environmentId === undefined)
    throw new TypeError("projectId and environmentId must be given together");
  const [project, environment] = [projectId, environmentId].map(encodeURIComponent);
  return `/api/projects/${project}/environments/${environment}${path}`;
}

function errorOf(status: number, body: string, requestId: string | null): Error {
  let parsed: { error?: string; code?: string; details?: Record<string, unknown> } = {};
  try {
    parsed = JSON.parse(body) as typeof parsed;
  } catch {
    /* A proxy in between may answer in its own words. */
  }
  if (status === 401) return new AuthError(parsed.error ?? "the server asks for a valid API key");
  return new HelmrApiError(body, {
    status,
    code: parsed.code ?? "unknown",
    ...(parsed.details && { details: parsed.details }),
    ...(requestId !== null && { requestId }),
  });
}

export class Transport {
  readonly #base: string;
  readonly #key: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions) {
    this.#base = baseUrl(options.url);
    this.#key = options.apiKey ?? variable("HELMR_API_KEY");
    /* A browser's fetch is a function of its window and refuses to be one of ours. */
    this.#fetch = (options.fetch ?? globalThis.fetch).bind(globalThis);
  }

  /** A response of a success status, its body not yet read. */
  async open(method: string, path: string, call: Call = {}): Promise<Response> {
    const url = this.#url(path, call);
    const bearer = call.publicAccessToken ?? this.#key;
    const headers: Record<string, string> = {
      "Helmr-API-Version": apiVersion,
      "Helmr-SDK-Version": version,
      ...(bearer !== undefined && { Authorization: `Bearer ${bearer}` }),
      ...(call.body !== undefined && { "Content-Type": "application/json" }),
      ...call.headers,
    };
    const response = await this.#fetch(url, {
      method,
      headers,
      ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      ...(call.bytes !== undefined && { body: call.bytes }),
      /* What is not known as a whole is sent while it comes, and answered after that. */
      ...(call.bytes instanceof ReadableStream && { duplex: "half" }),
      ...(call.signal && { signal: call.signal }),
    });
    if (!response.ok)
      throw errorOf(response.status, await response.text(), response.headers.get("x-request-id"));
    return response;
  }

  /** A WebSocket that is not open yet. Only programs can name a key: browsers send their cookie. */
  socket(path: string, protocol: string, call: Call = {}): WebSocket {
    if (typeof WebSocket === "undefined")
      throw new UnsupportedTransportError("there is no WebSocket here: Node 22 or newer has one");
    const url = this.#url(path, call);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (globalThis.process?.versions?.node === undefined) {
      if (this.#key !== undefined)
        throw new UnsupportedTransportError("a browser cannot send an API key with a WebSocket");
      return new WebSocket(url, protocol);
    }
    const headers = {
      "Helmr-API-Version": apiVersion,
      "Helmr-SDK-Version": version,
      ...(this.#key !== undefined && { Authorization: `Bearer ${this.#key}` }),
    };
    return new WebSocket(url, { protocols: [protocol], headers } as unknown as string);
  }

  #url(path: string, call: Call): URL {
    const url = new URL(this.#base + scoped(path, call));
    for (const [name, value] of Object.entries(call.query ?? {}))
      if (value !== undefined) url.searchParams.set(name, String(value));
    return url;
  }

  async json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const response = await this.open(method, path, call);
    return (await response.json()) as T;
  }
}
