// What the run has waited for, who answered, and where it can be forked.
import type { ReactNode } from "react";
import type { Run, Token, Wait } from "../../api/types.ts";
import { useScope, useScoped } from "../../app/scope.tsx";
import { AnsweredBy } from "../../ui/answered.tsx";
import { sizeText } from "../../ui/bytes.ts";
import { wordsOfWait } from "../../ui/life.ts";
import { Empty, Status } from "../../ui/parts.tsx";
import { Time, durationText } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";
import { Fork } from "./actions.tsx";

function Answered({ tokenId }: { tokenId: string }): ReactNode {
  const { data } = useScoped<Token>(`/tokens/${tokenId}`);
  return data?.completed_at ? <AnsweredBy token={data} /> : null;
}

function WaitRow({ run, wait }: { run: Run; wait: Wait }): ReactNode {
  const { may } = useScope();
  const end = wait.settled_at ? Date.parse(wait.settled_at) : undefined;
  return (
    <li>
      <Status value={wait.condition} />
      <span className="grow">
        <b>{wordsOfWait(wait.kind, wait.metadata)}</b>
        <span className="dim">
          {wait.kind} · asked <Time at={wait.created_at} />
          {end !== undefined && ` · waited ${durationText(end - Date.parse(wait.created_at))}`}
          {` · ${wait.suspension.replaceAll("_", " ")}`}
          {wait.checkpoint &&
            ` · checkpoint ${wait.checkpoint.state}, ${sizeText(wait.checkpoint.size_bytes)}`}
        </span>
        {wait.token_id && wait.settled_at && <Answered tokenId={wait.token_id} />}
      </span>
      {may("runs:create") && wait.checkpoint?.state === "ready" && (
        <Fork runId={run.id} waitId={wait.id} />
      )}
    </li>
  );
}

export function Waits({ run }: { run: Run }): ReactNode {
  const { data, error, refresh } = useScoped<{ waits: Wait[] }>(`/runs/${run.id}/waits`);
  if (error) return <Trouble error={error} retry={refresh} />;
  if (data?.waits.length === 0)
    return (
      <Empty title="It has waited for nothing">
        A task waits for a person with <code>ctx.wait.human()</code>, and holds no worker meanwhile.
      </Empty>
    );
  return (
    <ul className="lines waits">
      {data?.waits.map((wait) => (
        <WaitRow key={wait.id} run={run} wait={wait} />
      ))}
    </ul>
  );
}
