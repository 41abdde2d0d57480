// The files of a version: a folder at a time, what is in a file, and files put there or taken away.
import { useRef, useState } from "react";
import type { ReactNode } from "react";
import type { FileEntry, WorkspaceHandle } from "@helmr/sdk";
import { refreshAll, useQuery } from "../app/query.ts";
import { useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { Confirm, Empty, useSubmit } from "./parts.tsx";
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
  if (bytes.includes(0)) return <p className="dim">It is not text.</p>;
  return (
    <pre className="tail file" tabIndex={0}>
      {new TextDecoder().decode(bytes)}
    </pre>
  );
}

function Shown({
  workspace,
  path,
  versionId,
}: {
  workspace: WorkspaceHandle;
  path: string;
  versionId: string;
}): ReactNode {
  const { place } = useScope();
  const of = { source: "version", versionId } as const;
  const { data, error, refresh } = useQuery(
    `${place.environmentId} workspace ${workspace.id} ${versionId} content ${path}`,
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

function Upload({
  workspace,
  folder,
  done,
}: {
  workspace: WorkspaceHandle;
  folder: string;
  done(): void;
}): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  const [said, setSaid] = useState("");
  const { error, isBusy, submit } = useSubmit(async () => {
    const files = [...(input.current?.files ?? [])];
    for (const [i, file] of files.entries()) {
      setSaid(`${i + 1} of ${files.length}: ${file.name}`);
      await workspace.files.write(join(folder, file.name), file);
    }
    setSaid("");
    done();
  });
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        className="hidden"
        aria-label="Files to upload"
        onChange={() => submit()}
      />
      <button type="button" disabled={isBusy} onClick={() => input.current?.click()}>
        {isBusy ? `Uploading ${said}` : "Upload"}
      </button>
      {error && <Trouble error={error} />}
    </>
  );
}

interface Browsed {
  workspace: WorkspaceHandle;
  current: string | undefined;
  version: string | undefined;
}

export function FileBrowser({ workspace, current, version }: Browsed): ReactNode {
  const { place, may } = useScope();
  const [folder, setFolder] = useSearch("folder", "");
  const [file, setFile] = useSearch("file", "");
  const versionId = version ?? current;
  const query = useQuery(
    versionId && `${place.environmentId} workspace ${workspace.id} ${versionId} files ${folder}`,
    () =>
      workspace.files.list(folder || ".", { source: "version", versionId: versionId as string }),
  );
  const again = (): void => refreshAll(`${place.environmentId} workspace ${workspace.id}`);
  const mayWrite = may("workspace-files:write") && version === undefined;
  const archive = useSubmit(async () => {
    const tar = await workspace.files.download(folder || ".", {
      source: "version",
      versionId: versionId as string,
    });
    save(await new Response(tar).blob(), `${folder.replaceAll("/", "-") || "workspace"}.tar`);
  });
  return (
    <>
      <div className="filters">
        <Crumbs folder={folder} open={setFolder} />
        {version && <span className="tag">version {version.slice(-12)}</span>}
        {mayWrite && <Upload workspace={workspace} folder={folder} done={again} />}
        {versionId && (
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
      {archive.error && <Trouble error={archive.error} />}
      {query.error && <Trouble error={query.error} retry={query.refresh} />}
      {!versionId && (
        <Empty
          title="Nothing was written here yet"
          command={`helmr workspace files put ${workspace.id} LOCAL PATH`}
        />
      )}
      {query.data?.length === 0 && <Empty title="The folder is empty" />}
      {query.data && query.data.length > 0 && (
        <div className="table" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>Mode</th>
                <th>Size</th>
                <th>Changed</th>
                <th>Actions</th>
              </tr>
            </thead>
            <tbody>
              {query.data.map((entry) => (
                <tr key={entry.path}>
                  <td>
                    <button
                      type="button"
                      className="name"
                      onClick={() =>
                        entry.type === "directory" ? setFolder(entry.path) : setFile(entry.path)
                      }
                    >
                      {entry.name}
                      {entry.type === "directory" ? "/" : ""}
                    </button>
                    {entry.target && <span className="dim"> → {entry.target}</span>}
                  </td>
                  <td>
                    <code>{modeText(entry)}</code>
                  </td>
                  <td>{entry.type === "file" ? entry.sizeBytes.toLocaleString("en") : "–"}</td>
                  <td>
                    <Time at={entry.mtime.toISOString()} />
                  </td>
                  <td>
                    {mayWrite && (
                      <Confirm
                        isPlain
                        label="Delete"
                        question={
                          entry.type === "directory"
                            ? "With all that is in it."
                            : "As a new version."
                        }
                        act={async () => {
                          await workspace.files.delete(entry.path, {
                            recursive: entry.type === "directory",
                          });
                          again();
                        }}
                      />
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {file && versionId && <Shown workspace={workspace} path={file} versionId={versionId} />}
    </>
  );
}
