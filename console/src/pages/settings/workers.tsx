// Who runs things: workers with their engine, grade, room and what their own checks said.
import { useState } from "react";
import type { ReactNode } from "react";
import { get, send } from "../../api/client.ts";
import type { Worker } from "../../api/types.ts";
import { useQuery } from "../../app/query.ts";
import { useScope } from "../../app/scope.tsx";
import { Confirm, Empty, Facts, PageHead, Status, useSubmit } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

function Probes({ worker }: { worker: Worker }): ReactNode {
  return (
    <ul className="lines">
      {worker.probes.map((probe) => (
        <li key={probe.engine}>
          <Status value={probe.usable ? "ready" : "failed"} />
          <b>{probe.engine}</b>
          <span className="dim">
            {probe.grade}
            {probe.reason ? `: ${probe.reason}` : ""}
          </span>
        </li>
      ))}
    </ul>
  );
}

function One({ worker, done }: { worker: Worker; done(): void }): ReactNode {
  const { may } = useScope();
  const [isOpen, setOpen] = useState(false);
  const room = worker.capabilities;
  const undrain = useSubmit(async () => {
    await send("POST", `/workers/${worker.id}/undrain`, {});
    done();
  });
  const isOut = worker.state === "draining" || worker.state === "drained";
  return (
    <article className="card wide">
      <header className="section-head">
        <h2>
          {worker.resource_id} <Status value={worker.state} />
        </h2>
        <span className="confirm">
          <button
            type="button"
            className="quiet"
            aria-expanded={isOpen}
            onClick={() => setOpen(!isOpen)}
          >
            Checks
          </button>
          {may("workers:manage") &&
            (isOut ? (
              <button
                type="button"
                className="quiet"
                disabled={undrain.isBusy}
                onClick={() => undrain.submit()}
              >
                Take work again
              </button>
            ) : (
              worker.state === "active" && (
                <Confirm
                  isPlain
                  label="Drain"
                  question="It takes no more work; what runs is finished or parked."
                  act={async () => {
                    await send("POST", `/workers/${worker.id}/drain`, {});
                    done();
                  }}
                />
              )
            ))}
        </span>
      </header>
      <Facts
        rows={[
          ["Engine", worker.engine ? `${worker.engine} · ${worker.grade}` : "none"],
          ["In use", `${worker.active_leases} of ${room?.execution_slots ?? "?"} slots`],
          [
            "Machine",
            room && `${room.arch ?? ""} · ${room.vcpus ?? "?"} CPU · ${room.memory_mib ?? "?"} MiB`,
          ],
          ["Group", worker.group],
          ["Version", worker.version],
          ["Last seen", <Time at={worker.last_seen_at} />],
          ["Paused", worker.paused.join(", ")],
          ["Quarantined", worker.quarantined.length || undefined],
        ]}
      />
      {isOpen && <Probes worker={worker} />}
      {undrain.error && <Trouble error={undrain.error} />}
    </article>
  );
}

export default function Workers(): ReactNode {
  const { data, error, refresh } = useQuery(
    "workers",
    () => get<{ workers: Worker[] }>("/workers"),
    5000,
  );
  return (
    <>
      <PageHead title="Workers" />
      {error && <Trouble error={error} retry={refresh} />}
      {data?.workers.length === 0 && (
        <Empty title="No worker has come yet" command="helmr worker">
          On a Linux host with the server's bootstrap token:
        </Empty>
      )}
      <div className="stack">
        {data?.workers.map((worker) => (
          <One key={worker.id} worker={worker} done={refresh} />
        ))}
      </div>
    </>
  );
}
