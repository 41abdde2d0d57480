// The versions of one workspace.
import { text } from "../check.js";
import type { RequestOptions } from "./transport.js";
import { workspaceVersion } from "./workspace.js";
import type {
  VersionKind,
  WorkspaceAddress,
  WorkspaceRecord,
  WorkspaceVersion,
} from "./workspace.js";

export interface VersionListOptions extends RequestOptions {
  kind?: VersionKind;
  /** 50 unless given. */
  limit?: number;
  cursor?: string;
}

export class WorkspaceVersions {
  readonly #workspace: WorkspaceAddress;

  constructor(workspace: WorkspaceAddress) {
    this.#workspace = workspace;
  }

  async retrieve(id: string, options: RequestOptions = {}): Promise<WorkspaceVersion> {
    return workspaceVersion(await this.#workspace.json("GET", path(id), options));
  }

  /** Newest first. */
  async list(options: VersionListOptions = {}): Promise<WorkspaceVersion[]> {
    const { kind, limit, cursor, ...request } = options;
    const call = { ...request, query: { kind, limit, cursor } };
    const answer = await this.#workspace.json<{ versions: WorkspaceRecord[] }>(
      "GET",
      "/versions",
      call,
    );
    return answer.versions.map(workspaceVersion);
  }

  /** What it holds becomes the current version, as a new one, whose id this is. */
  async restore(id: string, options: RequestOptions = {}): Promise<string> {
    const call = { ...options, body: {} };
    const answer = await this.#workspace.json<{ version_id: string }>(
      "POST",
      `${path(id)}/restore`,
      call,
    );
    return answer.version_id;
  }
}

const path = (id: string): string => `/versions/${encodeURIComponent(text("version", id))}`;
