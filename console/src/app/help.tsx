// The keys that do something on this page.
import type { ReactNode } from "react";
import { Dialog } from "../ui/dialog.tsx";
import { knownKeys } from "./keys.ts";

export function Help({ close }: { close(): void }): ReactNode {
  const rows: [string, string][] = [
    ["Ctrl K", "go anywhere"],
    ...knownKeys().map(({ keys, words }): [string, string] => [keys, words]),
  ];
  return (
    <Dialog label="Keys" className="palette help" close={close}>
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
    </Dialog>
  );
}
