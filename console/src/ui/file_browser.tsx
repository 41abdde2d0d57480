// The files of a version: a folder at a time, what is in one, and files put there, renamed, removed.
import { useRef, useState } from "react";
import type { DragEvent, ReactNode } from "react";
import type { FileEntry, FileSource, WorkspaceHandle } from "@helmr/sdk";
import { refreshAll, useQuery } from "../app/query.ts";
import { Link, useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { Confirm, Empty, useSubmit } from "./parts.tsx";
import { sizeText } from "./bytes.ts";
import { Time } from "./time.tsx";
import { Trouble } from "./trouble.tsx";

const shownBytes = 512 * 1024;
const kindLetters = { directory: "d", file: "-", symlink: "l", other: "?" };

function modeText({ type, mode }: FileEntry): string {
  const letters = [..."rwxrwxrwx"].map((letter, i) => ((mode >> (8 - i)) & 1 ? letter : "-"));
  return kindLetters[type] + letters.join("");
}

const join = (folder: string, name: string): string => (folder === "" ? name : `${folder}/${name}`);

function save(bytes: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(bytes);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function Content({ bytes }: { bytes: Uint8Array }): ReactNode {
  if (bytes.length === 0) return <p className="dim">It is empty.</p>;
  if (bytes.includes(0)) return <p className="dim">It is not text.</p>;
  const lines = new TextDecoder().decode(bytes).replace(/\n$/, "").split("\n");
  return (
    <div className="tail file" tabIndex={0}>
      <pre aria-hidden="true" className="dim">
        {lines.map((_, i) => i + 1).join("\n")}
      </pre>
      <pre>{lines.join("\n")}</pre>
    </div>
  );
}

const nameOf = (of: FileSource): string =>
  "versionId" in of ? of.versionId : (of.source ?? "");

function Shown({
  workspace,
  path,
  of,
  close,
}: {
  workspace: WorkspaceHandle;
  path: string;
  of: FileSource;
  close(): void;
}): ReactNode {
  const { place } = useScope();
  const { data, error, refresh } = useQuery(
    `${place.environmentId} workspace ${workspace.id} ${nameOf(of)} content ${path}`,
    async () => {
      const entry = await workspace.files.stat(path, of);
      if (entry.type !== "file" || entry.sizeBytes === 0) return { entry, bytes: new Uint8Array() };
      return { entry, bytes: await workspace.files.read(path, { ...of, length: shownBytes }) };
    },
  );
  const download = useSubmit(async () => {
    save(
      await new Response(await workspace.files.stream(path, of)).blob(),
      path.slice(path.lastIndexOf("/") + 1),
    );
  });
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!data) return null;
  return (
    <section aria-label={path}>
      <div className="section-head">
        <h2>
          <code>{path}</code>
        </h2>
        <span className="confirm">
          {data.entry.type === "file" && (
            <button
              type="button"
              className="quiet"
              disabled={download.isBusy}
              onClick={() => download.submit()}
            >
              Download
            </button>
          )}
          <button type="button" className="quiet" onClick={close}>
            Close
          </button>
        </span>
      </div>
      {data.entry.type === "symlink" ? (
        <p>
          A link to <code>{data.entry.target}</code>
        </p>
      ) : (
        <Content bytes={data.bytes} />
      )}
      {data.entry.sizeBytes > shownBytes && (
        <p className="dim">
          The first {shownBytes / 1024} KiB of {data.entry.sizeBytes.toLocaleString("en")} bytes.
        </p>
      )}
      {download.error && <Trouble error={download.error} />}
    </section>
  );
}

function Crumbs({ folder, open }: { folder: string; open(path: string): void }): ReactNode {
  const parts = folder === "" ? [] : folder.split("/");
  return (
    <nav aria-label="Folder" className="crumbs">
      <button type="button" className="quiet" onClick={() => open("")}>
        workspace
      </button>
      {parts.map((part, i) => (
        <button
          key={i}
          type="button"
          className="quiet"
          onClick={() => open(parts.slice(0, i + 1).join("/"))}
        >
          / {part}
        </button>
      ))}
    </nav>
  );
}

interface Changed {
  workspace: WorkspaceHandle;
  folder: string;
  done(): void;
}

/** Files that were chosen, or dropped onto the list. */
function useUpload({ workspace, folder, done }: Changed) {
  const chosen = useRef<File[]>([]);
  const [said, setSaid] = useState("");
  const { error, isBusy, submit } = useSubmit(async () => {
    const files = chosen.current;
    for (const [i, file] of files.entries()) {
      setSaid(`${i + 1} of ${files.length}: ${file.name}`);
      await workspace.files.write(join(folder, file.name), file);
    }
    done();
  });
  return {
    error,
    said: isBusy ? said : undefined,
    upload: (files: FileList | null) => {
      chosen.current = [...(files ?? [])];
      if (chosen.current.length > 0) submit();
    },
  };
}

function Upload({
  upload,
  said,
}: {
  upload(files: FileList | null): void;
  said: string | undefined;
}): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        className="hidden"
        tabIndex={-1}
        aria-label="Files to upload"
        onChange={(event) => {
          upload(event.target.files);
          event.target.value = "";
        }}
      />
      <button type="button" disabled={said !== undefined} onClick={() => input.current?.click()}>
        {said === undefined ? "Upload" : `Uploading ${said}`}
      </button>
    </>
  );
}

/** A button that becomes a box for a name. */
function Named({
  label,
  question,
  initial = "",
  act,
}: {
  label: string;
  question: string;
  initial?: string;
  act(name: string): Promise<unknown>;
}): ReactNode {
  const [isAsking, setAsking] = useState(false);
  const [name, setName] = useState(initial);
  const { error, isBusy, submit } = useSubmit(async () => {
    await act(name);
    setAsking(false);
    setName(initial);
  });
  if (!isAsking)
    return (
      <button type="button" className="quiet" onClick={() => setAsking(true)}>
        {label}
      </button>
    );
  return (
    <form onSubmit={submit} className="confirm">
      <input
        aria-label={question}
        placeholder={question}
        required
        autoFocus
        value={name}
        onChange={(event) => setName(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") setAsking(false);
        }}
      />
      <button disabled={isBusy}>{label}</button>
      <button type="button" className="quiet" onClick={() => setAsking(false)}>
        Keep
      </button>
      {error && <Trouble error={error} />}
    </form>
  );
}

function FileActions({
  workspace,
  entry,
  done,
}: {
  workspace: WorkspaceHandle;
  entry: FileEntry;
  done(): void;
}): ReactNode {
  return (
    <span className="confirm">
      <Named
        label="Rename"
        question="New path"
        initial={entry.path}
        act={async (to) => {
          await workspace.files.move(entry.path, to);
          done();
        }}
      />
      <Confirm
        isPlain
        label="Delete"
        question={entry.type === "directory" ? "With all that is in it." : "As a new version."}
        act={async () => {
          await workspace.files.delete(entry.path, { recursive: entry.type === "directory" });
          done();
        }}
      />
    </span>
  );
}

function Entries({
  entries,
  folder,
  open,
  actions,
}: {
  entries: FileEntry[];
  folder: string;
  open(entry: { path: string; type: FileEntry["type"] }): void;
  actions: ((entry: FileEntry) => ReactNode) | undefined;
}): ReactNode {
  const above = folder.split("/").slice(0, -1).join("/");
  return (
    <div className="table files" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>Name</th>
            <th>Mode</th>
            <th className="number">Size</th>
            <th>Changed</th>
            {actions && <th>Actions</th>}
          </tr>
        </thead>
        <tbody>
          {folder !== "" && (
            <tr>
              <td>
                <button
                  type="button"
                  className="name is-directory"
                  onClick={() => open({ path: above, type: "directory" })}
                >
                  ..<span className="hidden"> the folder above</span>
                </button>
              </td>
              <td />
              <td />
              <td />
              {actions && <td />}
            </tr>
          )}
          {entries.map((entry) => (
            <tr key={entry.path}>
              <td>
                <button
                  type="button"
                  className={`name is-${entry.type}`}
                  title={entry.name}
                  onClick={() => open(entry)}
                >
                  {entry.name}
                  {entry.type === "directory" ? "/" : ""}
                </button>
                {entry.target && <span className="dim"> → {entry.target}</span>}
              </td>
              <td>
                <code className="dim">{modeText(entry)}</code>
              </td>
              <td className="number">
                {entry.type === "file" ? (
                  <span title={`${entry.sizeBytes.toLocaleString("en")} bytes`}>
                    {sizeText(entry.sizeBytes)}
                  </span>
                ) : (
                  <span className="dim">–</span>
                )}
              </td>
              <td>
                <Time at={entry.mtime.toISOString()} />
              </td>
              {actions && <td>{actions(entry)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Browsed {
  workspace: WorkspaceHandle;
  current: string | undefined;
  version: string | undefined;
  /** Whether a sandbox has the workspace now, which may be further than any version. */
  isMounted: boolean;
}

export function FileBrowser({ workspace, current, version, isMounted }: Browsed): ReactNode {
  const { place, may } = useScope();
  const [folder, setFolder] = useSearch("folder", "");
  const [file, setFile] = useSearch("file", "");
  const [isOver, setOver] = useState(false);
  const [source, setSource] = useSearch("source", "");
  const isLive = source === "live" && isMounted && version === undefined;
  const versionId = version ?? current;
  const of: FileSource | undefined = isLive
    ? { source: "live" }
    : versionId === undefined
      ? undefined
      : { source: "version", versionId };
  const query = useQuery(
    of && `${place.environmentId} workspace ${workspace.id} ${nameOf(of)} files ${folder}`,
    () => workspace.files.list(folder || ".", of),
    isLive ? 3000 : undefined,
  );
  const again = (): void => refreshAll(`${place.environmentId} workspace ${workspace.id}`);
  const mayWrite = may("workspace-files:write") && version === undefined && !isLive;
  const { upload, said, error } = useUpload({ workspace, folder, done: again });
  const archive = useSubmit(async () => {
    const tar = await workspace.files.download(folder || ".", of);
    save(await new Response(tar).blob(), `${folder.replaceAll("/", "-") || "workspace"}.tar`);
  });
  const failed = archive.error ?? error;
  return (
    <div
      className={isOver ? "drop is-over" : "drop"}
      {...(mayWrite && {
        onDragOver: (event: DragEvent) => {
          event.preventDefault();
          setOver(true);
        },
        onDragLeave: () => setOver(false),
        onDrop: (event: DragEvent) => {
          event.preventDefault();
          setOver(false);
          upload(event.dataTransfer.files);
        },
      })}
    >
      <div className="filters">
        <Crumbs folder={folder} open={setFolder} />
        {version && (
          <>
            <span className="tag">version {version.slice(-12)}</span>
            <Link href={`/workspaces/${workspace.id}`}>back to the current one</Link>
          </>
        )}
        {isMounted && version === undefined && (
          <button
            type="button"
            className="quiet"
            aria-pressed={isLive}
            title="What the sandbox has at this moment"
            onClick={() => setSource(isLive ? "" : "live")}
          >
            Live
          </button>
        )}
        {mayWrite && (
          <>
            <Named
              label="New folder"
              question="Name of the folder"
              act={async (name) => {
                await workspace.files.mkdir(join(folder, name));
                again();
              }}
            />
            <Upload upload={upload} said={said} />
          </>
        )}
        {of && !isLive && (
          <button
            type="button"
            className="quiet"
            disabled={archive.isBusy}
            onClick={() => archive.submit()}
          >
            Download as tar
          </button>
        )}
      </div>
      {failed && <Trouble error={failed} />}
      {query.error && <Trouble error={query.error} retry={query.refresh} />}
      {!of && (
        <Empty
          title="Nothing was written here yet"
          command={`helmr workspace files put ${workspace.id} LOCAL PATH`}
        >
          {mayWrite ? "Drop files here, or from a terminal:" : undefined}
        </Empty>
      )}
      {query.data?.length === 0 && <Empty title="The folder is empty" />}
      {query.data && (query.data.length > 0 || folder !== "") && (
        <Entries
          entries={query.data}
          folder={folder}
          open={({ path, type }) => (type === "directory" ? setFolder(path) : setFile(path))}
          actions={
            mayWrite
              ? (entry) => <FileActions workspace={workspace} entry={entry} done={again} />
              : undefined
          }
        />
      )}
      {file && of && (
        <Shown workspace={workspace} path={file} of={of} close={() => setFile("")} />
      )}
    </div>
  );
}
