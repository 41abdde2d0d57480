// Who runs things: workers with their engine, grade, room and what their own checks said.
import type { ReactNode } from "react";
import { get, send } from "../../api/client.ts";
import type { Worker, WorkerGroup } from "../../api/types.ts";
import { useQuery } from "../../app/query.ts";
import { useScope } from "../../app/scope.tsx";
import { Confirm, Empty, Facts, PageHead, Section, Status, useSubmit } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

const gradeWords: Record<string, string> = {
  microvm: "its own kernel in a microVM",
  "user-kernel": "its own kernel in user space",
  "shared-kernel": "the host's kernel",
};

/** What the worker found when it tried each engine, as `helmr doctor` shows it. */
function Checks({ worker }: { worker: Worker }): ReactNode {
  const usable = worker.probes.filter((probe) => probe.usable).length;
  return (
    <details className="checks-of">
      <summary>
        Checks: {usable} of {worker.probes.length} engines can be used
      </summary>
      <ul className="lines">
        {worker.probes.map((probe) => (
          <li key={probe.engine}>
            <Status value={probe.usable ? "ready" : "unusable"} />
            <b>{probe.engine}</b>
            <span className="dim">
              {probe.grade}
              {probe.reason ? `: ${probe.reason}` : ""}
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Room({ used, most }: { used: number; most: number | undefined }): ReactNode {
  if (most === undefined) return <>{used} in use</>;
  return (
    <span className="room">
      <meter min={0} max={Math.max(most, 1)} value={used} aria-label="Slots in use" />
      {used} of {most} slots
    </span>
  );
}

function Actions({ worker, done }: { worker: Worker; done(): void }): ReactNode {
  const act = async (verb: string): Promise<void> => {
    await send("POST", `/workers/${worker.id}/${verb}`, {});
    done();
  };
  const undrain = useSubmit(() => act("undrain"));
  const isOut = worker.state === "draining" || worker.state === "drained";
  return (
    <span className="confirm">
      {isOut && (
        <button
          type="button"
          className="quiet"
          disabled={undrain.isBusy}
          onClick={() => undrain.submit()}
        >
          Take work again
        </button>
      )}
      {worker.state === "active" && (
        <Confirm
          isPlain
          label="Drain"
          question="It takes no more work; what runs is finished or parked."
          act={() => act("drain")}
        />
      )}
      {worker.state !== "disabled" && (
        <Confirm
          isPlain
          label="Disable"
          question="Its credential ends; what it runs goes to others."
          act={() => act("disable")}
        />
      )}
      {undrain.error && <Trouble error={undrain.error} />}
    </span>
  );
}

function gibText(mib: number | undefined): string {
  return mib === undefined ? "?" : `${(mib / 1024).toFixed(mib < 10 * 1024 ? 1 : 0)} GiB`;
}

function One({ worker, done }: { worker: Worker; done(): void }): ReactNode {
  const { may } = useScope();
  const room = worker.capabilities;
  const labels = Object.entries(worker.labels).map(([name, value]) => `${name}=${value}`);
  return (
    <article className="card wide" aria-label={worker.resource_id}>
      <header className="section-head">
        <h2>
          {worker.resource_id} <Status value={worker.state} />
        </h2>
        {may("workers:manage") && <Actions worker={worker} done={done} />}
      </header>
      <Facts
        rows={[
          [
            "Isolation",
            worker.engine ? (
              <span title={gradeWords[worker.grade ?? ""]}>
                {worker.engine} · {worker.grade}
              </span>
            ) : (
              "none"
            ),
          ],
          ["In use", <Room used={worker.active_leases} most={room?.execution_slots} />],
          [
            "Machine",
            room &&
              [
                room.arch,
                `${room.vcpus ?? "?"} CPU`,
                gibText(room.memory_mib),
                `disk ${gibText(room.disk_mib)}`,
              ].join(" · "),
          ],
          ["Does", worker.roles.join(", ")],
          ["Group", worker.group],
          ["Labels", labels.join(", ")],
          ["Version", worker.version],
          ["Last seen", <Time at={worker.last_seen_at} />],
          ["Paused", worker.paused.join(", ")],
          ["Quarantined", worker.quarantined.join(", ")],
        ]}
      />
      {worker.probes.length > 0 && <Checks worker={worker} />}
    </article>
  );
}

function Group({ group, done }: { group: WorkerGroup; done(): void }): ReactNode {
  const { may } = useScope();
  const act = async (verb: string): Promise<void> => {
    await send("POST", `/worker-groups/${encodeURIComponent(group.name)}/${verb}`, {});
    done();
  };
  const activate = useSubmit(() => act("activate"));
  return (
    <li>
      <b>{group.name}</b>
      <Status value={group.state} />
      <span className="dim">
        {group.workers === 1 ? "1 worker" : `${group.workers} workers`}
      </span>
      {may("workers:manage") &&
        (group.state === "active" ? (
          <Confirm
            isPlain
            label="Pause"
            question="Its runs wait in the queue."
            act={() => act("pause")}
          />
        ) : (
          <button
            type="button"
            className="quiet"
            disabled={activate.isBusy}
            onClick={() => activate.submit()}
          >
            Go on
          </button>
        ))}
      {activate.error && <Trouble error={activate.error} />}
    </li>
  );
}

export default function Workers(): ReactNode {
  const workers = useQuery("workers", () => get<{ workers: Worker[] }>("/workers"), 5000);
  const groups = useQuery(
    "worker groups",
    () => get<{ worker_groups: WorkerGroup[] }>("/worker-groups"),
    5000,
  );
  return (
    <>
      <PageHead title="Workers" lead="Hosts that build and run; each says what it can" />
      {workers.error && <Trouble error={workers.error} retry={workers.refresh} />}
      {workers.data?.workers.length === 0 && (
        <Empty title="No worker has come yet" command="helmr worker">
          On a Linux host with the server's bootstrap token:
        </Empty>
      )}
      <div className="stack">
        {workers.data?.workers.map((worker) => (
          <One key={worker.id} worker={worker} done={workers.refresh} />
        ))}
      </div>
      {groups.data && groups.data.worker_groups.length > 0 && (
        <Section title="Groups">
          <ul className="lines">
            {groups.data.worker_groups.map((group) => (
              <Group key={group.name} group={group} done={groups.refresh} />
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}
