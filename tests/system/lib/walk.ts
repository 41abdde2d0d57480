// Requests as the API's description has them, each answer judged by it.
import assert from "node:assert/strict";
import type { Contract } from "./openapi.ts";

export interface Step {
  /** 200 when left out. */
  readonly status?: number;
  readonly params?: Record<string, string>;
  readonly query?: Record<string, string>;
  readonly body?: unknown;
  /** In place of the walker's own; none when empty. */
  readonly token?: string;
  readonly headers?: Record<string, string>;
  /** Sent as it is, for what is not JSON. */
  readonly raw?: FormData | Uint8Array<ArrayBuffer> | string;
}

export class Walker {
  readonly contract: Contract;
  readonly url: string;
  readonly token: string;
  /** What stands for "/api" when the same is asked in a scope that is named. */
  readonly scope: string;

  constructor(contract: Contract, url: string, token: string, scope = "") {
    this.contract = contract;
    this.url = url;
    this.token = token;
    this.scope = scope;
  }

  /** Asks, is answered as described, gives what the answer says. What is only read in a scope is
   * read once more with the scope named. */
  async ask(name: string, step: Step = {}): Promise<any> {
    if (step.body !== undefined) this.contract.checkRequest(name, step.body);
    const answer = await this.#send(name, step, "/api");
    if (name.startsWith("GET ") && this.scope !== "" && this.contract.isScoped(name))
      await this.#send(name, step, this.scope);
    return answer;
  }

  async #send(name: string, step: Step, base: string): Promise<any> {
    const { status = 200, params = {}, query, body, token = this.token, headers, raw } = step;
    const [method = "", template = ""] = name.split(" ");
    const path = template
      .replace(/^\/api(?=\/)/, base)
      .replaceAll(/\{(\w+)\}/g, (_all, key: string) => encodeURIComponent(params[key] ?? key));
    const url = new URL(this.url + path);
    for (const [key, value] of Object.entries(query ?? {})) url.searchParams.set(key, value);
    const response = await fetch(url, {
      method,
      redirect: "manual",
      headers: { ...(token && { authorization: `Bearer ${token}` }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(raw !== undefined && { body: raw }),
    });
    const text = await response.text();
    assert.equal(response.status, status, `${name}: ${text}`);
    const type = response.headers.get("content-type")?.split(";")[0] ?? "";
    this.contract.checkAnswer(name, status, type, text);
    assert.match(response.headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/);
    return type === "application/json" && text !== "" ? JSON.parse(text) : text;
  }
}
