// The keys that do something on this page.
import { useEffect, useRef } from "react";
import type { ReactNode } from "react";
import { knownKeys } from "./keys.ts";

export function Help({ close }: { close(): void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const rows: [string, string][] = [
    ["Ctrl K", "go anywhere"],
    ...knownKeys().map(({ keys, words }): [string, string] => [keys, words]),
  ];
  return (
    <dialog
      ref={dialog}
      className="palette help"
      aria-label="Keys"
      onClose={close}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <h2>Keys on this page</h2>
      <dl>
        {rows.map(([keys, words]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
      <button type="button" className="quiet" onClick={close}>
        Close
      </button>
    </dialog>
  );
}
