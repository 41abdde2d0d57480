// The files of one workspace: of its current version, of another one, or as they are right now.
import { refuse, text } from "../check.js";
import { given } from "./record.js";
import { requestOf } from "./transport.js";
import type { RawBody, RequestOptions } from "./transport.js";
import type { WorkspaceAddress, WorkspaceRecord } from "./workspace.js";

/** Entries of a page, as many as the server gives at once. */
const pageMax = 500;

/** Where files are read from; the current version unless given. */
export type FileSource =
  | { source?: "current" }
  | { source: "version"; versionId: string }
  /** In the sandbox that the workspace is mounted in. */
  | { source: "live" };

export type FileReadOptions = FileSource & RequestOptions;

export type FileListOptions = FileReadOptions & {
  /** With what is in the directories below. */
  recursive?: boolean;
  /** Only those whose name fits the pattern: "*.ts". */
  name?: string;
  limit?: number;
  cursor?: string;
};

export type FileRangeOptions = FileReadOptions & {
  /** The first byte. */
  offset?: number;
  /** So many bytes, or fewer at the end. */
  length?: number;
};

export interface FileEntry {
  readonly name: string;
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "other";
  readonly sizeBytes: number;
  readonly mode: number;
  readonly mtime: Date;
  /** Of a symbolic link. */
  readonly target?: string;
}

export interface FilePage {
  readonly entries: FileEntry[];
  readonly nextCursor?: string;
}

/** What a file is written from. A stream is sent as it comes. */
export type FileData = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>;

export interface FileChange {
  /** What the workspace holds from now on. */
  readonly versionId: string;
}

export interface FileWritten extends FileChange {
  readonly entry: FileEntry;
}

function fileEntry(of: WorkspaceRecord): FileEntry {
  return {
    name: of.name,
    path: of.path,
    type: of.type,
    sizeBytes: of.size_bytes,
    mode: of.mode,
    mtime: new Date(of.mtime),
    ...given({ target: of.target as string | null | undefined }),
  };
}

const change = (of: WorkspaceRecord): FileChange => ({ versionId: of.version_id });

function place(path: string, options: FileReadOptions): Record<string, string | undefined> {
  const { source } = options;
  return {
    path: text("path", path),
    source,
    version_id: source === "version" ? text("versionId", options.versionId) : undefined,
  };
}

function range({ offset = 0, length }: FileRangeOptions): Record<string, string> {
  if (offset === 0 && length === undefined) return {};
  if (!Number.isSafeInteger(offset) || offset < 0) refuse("offset", "must be a number of bytes");
  if (length !== undefined && (!Number.isSafeInteger(length) || length < 1))
    refuse("length", "must be at least one byte");
  return { Range: `bytes=${offset}-${length === undefined ? "" : offset + length - 1}` };
}

const raw = (data: FileData): RawBody => data as RawBody;
const binary = { "Content-Type": "application/octet-stream" };
const tar = { "Content-Type": "application/x-tar" };

export class WorkspaceFiles {
  readonly #workspace: WorkspaceAddress;

  constructor(workspace: WorkspaceAddress) {
    this.#workspace = workspace;
  }

  /** By name. All of them, unless a limit or a cursor asks for one page. */
  async list(path: string, options: FileListOptions = {}): Promise<FileEntry[]> {
    if (options.limit !== undefined || options.cursor !== undefined)
      return (await this.listPage(path, options)).entries;
    const all: FileEntry[] = [];
    for (let cursor: string | undefined; ;) {
      const more = { limit: pageMax, ...given({ cursor }) };
      const { entries, nextCursor } = await this.listPage(path, { ...options, ...more });
      all.push(...entries);
      if (nextCursor === undefined) return all;
      cursor = nextCursor;
    }
  }

  async listPage(path: string, options: FileListOptions = {}): Promise<FilePage> {
    const { recursive, name, limit, cursor } = options;
    const query = { ...place(path, options), recursive: flag(recursive), name, limit, cursor };
    const page = await this.#workspace.json<{
      entries: WorkspaceRecord[];
      next_cursor?: string | null;
    }>("GET", "/files", { ...requestOf(options), query });
    return { entries: page.entries.map(fileEntry), ...given({ nextCursor: page.next_cursor }) };
  }

  async stat(path: string, options: FileReadOptions = {}): Promise<FileEntry> {
    const call = { ...requestOf(options), query: place(path, options) };
    return fileEntry(await this.#workspace.json<WorkspaceRecord>("GET", "/files/stat", call));
  }

  async read(path: string, options: FileRangeOptions = {}): Promise<Uint8Array> {
    return new Uint8Array(await (await this.#content(path, options)).arrayBuffer());
  }

  /** The same while it comes. */
  async stream(path: string, options: FileRangeOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return streamOf(await this.#content(path, options));
  }

  /** Directories above it are made. At most 64 MiB; larger ones go by `upload`. */
  async write(
    path: string,
    data: FileData,
    options: RequestOptions & { mode?: number } = {},
  ): Promise<FileWritten> {
    const { mode, ...call } = options;
    const query = { path: text("path", path), mode: octal(mode) };
    const answer = await this.#workspace.json<WorkspaceRecord>("PUT", "/files/content", {
      ...call,
      query,
      bytes: raw(data),
      headers: binary,
    });
    return { ...change(answer), entry: fileEntry(answer.entry) };
  }

  async delete(
    path: string,
    options: RequestOptions & { recursive?: boolean } = {},
  ): Promise<FileChange> {
    const { recursive, ...call } = options;
    const query = { path: text("path", path), recursive: flag(recursive) };
    return change(await this.#workspace.json("DELETE", "/files", { ...call, query }));
  }

  async move(from: string, to: string, options: RequestOptions = {}): Promise<FileChange> {
    const body = { from: text("from", from), to: text("to", to) };
    return change(await this.#workspace.json("POST", "/files/move", { ...options, body }));
  }

  async mkdir(path: string, options: RequestOptions & { mode?: number } = {}): Promise<FileChange> {
    const { mode, ...call } = options;
    const body = { path: text("path", path), mode };
    return change(await this.#workspace.json("POST", "/files/directory", { ...call, body }));
  }

  /** A directory with all that is in it, as a tar. */
  async download(
    path: string,
    options: FileReadOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const call = { ...requestOf(options), query: place(path, options) };
    return streamOf(await this.#workspace.open("GET", "/files/archive", call));
  }

  /** What a tar holds, put into a directory in one step. */
  async upload(path: string, archive: FileData, options: RequestOptions = {}): Promise<FileChange> {
    const query = { path: text("path", path) };
    const call = { ...options, query, bytes: raw(archive), headers: tar };
    return change(await this.#workspace.json("PUT", "/files/archive", call));
  }

  #content(path: string, options: FileRangeOptions): Promise<Response> {
    const call = {
      ...requestOf(options),
      query: place(path, options),
      headers: range(options),
    };
    return this.#workspace.open("GET", "/files/content", call);
  }
}

const flag = (value: boolean | undefined): string | undefined => (value ? "1" : undefined);

function octal(mode: number | undefined): string | undefined {
  if (mode === undefined) return undefined;
  if (!Number.isInteger(mode) || mode < 0 || mode > 0o7777) refuse("mode", "must be up to 0o7777");
  return mode.toString(8).padStart(4, "0");
}

const streamOf = (response: Response): ReadableStream<Uint8Array> =>
  response.body ?? new Blob([]).stream();
