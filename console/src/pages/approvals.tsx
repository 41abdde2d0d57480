// The inbox: every wait a person can answer, with what it is about beside the decision.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { get, send } from "../api/client.ts";
import type { Run, Wait } from "../api/types.ts";
import { useQuery } from "../app/query.ts";
import { useRunEvents } from "../app/run_events.ts";
import { Link, navigate, useAddress } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Answer, formOf, promptOf } from "../ui/answer.tsx";
import { withoutAnsi } from "../ui/ansi.ts";
import { DiffView } from "../ui/diff_view.tsx";
import { Copy, Empty, PageHead, Section, useSubmit } from "../ui/parts.tsx";
import { Time, durationText, useNow } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

const logLines = 30;

function Expiry({ at }: { at: string | null | undefined }): ReactNode {
  const now = useNow(1000);
  if (!at) return null;
  const left = Date.parse(at) - now;
  return (
    <span className={left < 3_600_000 ? "soon" : "dim"}>
      {left > 0 ? `expires in ${durationText(left)}` : "expired"}
    </span>
  );
}

function RecentLog({ runId }: { runId: string }): ReactNode {
  const { place } = useScope();
  const { data } = useQuery(`${place.environmentId} tail ${runId}`, () =>
    get<{ stdout_base64: string }>(`/runs/${runId}/logs`, place),
  );
  if (!data) return null;
  const bytes = Uint8Array.from(atob(data.stdout_base64), (letter) => letter.charCodeAt(0));
  const lines = withoutAnsiLines(new TextDecoder().decode(bytes));
  return lines.length === 0 ? (
    <p className="dim">It has printed nothing.</p>
  ) : (
    <pre className="tail" tabIndex={0}>
      {lines.join("\n")}
    </pre>
  );
}

function withoutAnsiLines(text: string): string[] {
  return text
    .trimEnd()
    .split("\n")
    .slice(-logLines)
    .map(withoutAnsi)
    .filter((line, _i, all) => line !== "" || all.length > 1);
}

/** A link for a phone: it can be used once and needs no account. */
function PhoneLink({ wait }: { wait: Wait }): ReactNode {
  const { place } = useScope();
  const [url, setUrl] = useState<string>();
  const { error, isBusy, submit } = useSubmit(async () => {
    const made = await send<{ url?: string }>(
      "POST",
      "/public-access-tokens",
      { scope: { type: "token.complete", token_id: wait.token_id }, max_uses: 1 },
      place,
    );
    setUrl(made.url);
  });
  if (url)
    return (
      <div className="command">
        <code>{url}</code>
        <Copy text={url} />
      </div>
    );
  return (
    <>
      <button type="button" className="quiet" disabled={isBusy} onClick={() => submit()}>
        Link to answer elsewhere
      </button>
      {error && <Trouble error={error} />}
    </>
  );
}

function Detail({ run, wait, done }: { run: Run; wait: Wait; done(): void }): ReactNode {
  useRunEvents(run.id);
  return (
    <article className="decision" aria-label={promptOf(wait)}>
      <h2>{promptOf(wait)}</h2>
      <p className="dim">
        <Link href={`/runs/${run.id}`}>{run.task_id}</Link> · asked <Time at={wait.created_at} /> ·{" "}
        <Expiry at={wait.timeout_at} />
      </p>
      <Answer key={wait.id} wait={wait} done={done} />
      <PhoneLink key={`link-${wait.id}`} wait={wait} />
      <Section title="Changes so far">
        <DiffView path={`/runs/${run.id}/diff`} />
      </Section>
      <Section title="Last lines of the log">
        <RecentLog runId={run.id} />
      </Section>
    </article>
  );
}

/** j and k move, a approves, r rejects. */
function useInboxKeys(
  list: Run[],
  at: number,
  open: (i: number) => void,
  decide: (approved: boolean) => void,
): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (
        (event.target instanceof HTMLElement &&
          event.target.closest("input,textarea,select,dialog")) ||
        event.metaKey ||
        event.ctrlKey
      )
        return;
      if (event.key === "j") open(Math.min(list.length - 1, at + 1));
      if (event.key === "k") open(Math.max(0, at - 1));
      if (event.key === "a") decide(true);
      if (event.key === "x") decide(false);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  });
}

export default function Approvals(): ReactNode {
  const { place } = useScope();
  const { data, error, refresh } = useScoped<{ runs: Run[] }>("/runs", {
    status: "waiting",
    limit: 200,
  });
  const { hash } = useAddress();
  const [said, setSaid] = useState("");
  const list = (data?.runs ?? []).filter(({ pending_wait }) => pending_wait?.token_id);
  const at = Math.max(
    0,
    list.findIndex(({ pending_wait }) => `#${pending_wait?.id}` === hash),
  );
  const chosen = list[at];
  const open = (i: number): void => {
    if (list[i]) navigate(`/approvals#${list[i].pending_wait?.id}`, { replace: true });
  };
  const done = (words: string): void => {
    setSaid(words);
    refresh();
  };
  const quick = useSubmit(async () => undefined);
  useInboxKeys(list, at, open, (approved) => {
    const wait = chosen?.pending_wait;
    if (!wait || formOf(wait) !== "approval" || quick.isBusy) return;
    void send("POST", `/tokens/${wait.token_id}/complete`, { data: { approved } }, place).then(
      () => done(`${approved ? "Approved" : "Rejected"}: ${promptOf(wait)}`),
      () => setSaid("It could not be answered."),
    );
  });
  return (
    <>
      <PageHead
        title="Approvals"
        lead={
          <>
            <kbd>j</kbd> <kbd>k</kbd> move, <kbd>a</kbd> approves, <kbd>x</kbd> rejects
          </>
        }
      />
      <p role="status" className="said">
        {said}
      </p>
      {error && <Trouble error={error} retry={refresh} />}
      {data && list.length === 0 && (
        <Empty title="Nobody waits for you">
          When a task calls <code>ctx.wait.human()</code>, its question appears here.
        </Empty>
      )}
      {chosen?.pending_wait && (
        <div className="inbox">
          <ul aria-label="Waiting">
            {list.map((run, i) => (
              <li key={run.id}>
                <Link href={`/approvals#${run.pending_wait?.id}`} aria-current={i === at}>
                  <b>{promptOf(run.pending_wait as Wait)}</b>
                  <span className="dim">
                    {run.task_id} · <Time at={run.pending_wait?.created_at} />
                  </span>
                </Link>
              </li>
            ))}
          </ul>
          <Detail
            run={chosen}
            wait={chosen.pending_wait}
            done={() => done(`Answered: ${promptOf(chosen.pending_wait as Wait)}`)}
          />
        </div>
      )}
    </>
  );
}
