// The one way to the server: the SDK, signed in by the browser's own cookie.
import { HelmrClient } from "@helmr/sdk";
import type { ApiRequest } from "@helmr/sdk";

export const client = new HelmrClient({ url: location.origin });

/** Where a request is asked: project and environment by id. */
export interface Place {
  projectId: string;
  environmentId: string;
}

export function get<T>(path: string, options: ApiRequest = {}): Promise<T> {
  return client.request<T>("GET", path, options);
}

export function send<T>(
  method: "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  body?: unknown,
  options: ApiRequest = {},
): Promise<T> {
  return client.request<T>(method, path, { ...options, ...(body !== undefined && { body }) });
}
