// The inbox: every wait a person can answer, with what it is about beside the decision.
import { useEffect, useRef, useState } from "react";
import type { ReactNode } from "react";
import { get, send } from "../api/client.ts";
import type { Run, Token, Wait } from "../api/types.ts";
import { useKeys } from "../app/keys.ts";
import { useQuery } from "../app/query.ts";
import { useRunEvents } from "../app/run_events.ts";
import { Link, navigate, useAddress, useSearch } from "../app/router.tsx";
import { useRunPages } from "../app/run_pages.ts";
import { useScope, useScoped } from "../app/scope.tsx";
import { AnsiText } from "../ui/ansi_text.tsx";
import { Answer, promptOf } from "../ui/answer.tsx";
import { AnsweredBy } from "../ui/answered.tsx";
import { bytesOf } from "../ui/bytes.ts";
import { DiffView } from "../ui/diff_view.tsx";
import { wordsOfWait } from "../ui/life.ts";
import { Copy, Empty, PageHead, Section, Tabs, useSubmit } from "../ui/parts.tsx";
import { Time, durationText, useNow } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

const tailLines = 30;

function Expiry({ at }: { at: string | null | undefined }): ReactNode {
  const now = useNow(1000);
  if (!at) return null;
  const left = Date.parse(at) - now;
  return (
    <span
      className={left < 3_600_000 ? "soon" : undefined}
      title={new Date(at).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" })}
    >
      {left > 0 ? `expires in ${durationText(left)}` : "expired"}
    </span>
  );
}

function Tail({ name, base64 }: { name: string; base64: string }): ReactNode {
  const lines = new TextDecoder().decode(bytesOf(base64)).trimEnd().split("\n").slice(-tailLines);
  return (
    <pre className="tail" tabIndex={0} aria-label={name}>
      {lines.map((line, i) => (
        <span key={i}>
          <AnsiText text={line} />
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

function RecentLog({ runId }: { runId: string }): ReactNode {
  const { place } = useScope();
  const { data, error, refresh } = useQuery(`${place.environmentId} /runs/${runId} tail`, () =>
    get<{ stdout_base64: string; stderr_base64: string }>(`/runs/${runId}/logs`, place),
  );
  if (error && !data) return <Trouble error={error} retry={refresh} />;
  if (!data) return null;
  return (
    <>
      {data.stdout_base64 === "" && data.stderr_base64 === "" && (
        <p className="dim">It has printed nothing.</p>
      )}
      {data.stdout_base64 !== "" && <Tail name="Output" base64={data.stdout_base64} />}
      {data.stderr_base64 !== "" && (
        <>
          <p className="dim">stderr</p>
          <Tail name="Errors" base64={data.stderr_base64} />
        </>
      )}
    </>
  );
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
      <div className="once" role="status">
        <strong>Works once, without an account. Send it to whoever should decide:</strong>
        <div className="command">
          <code>{url}</code>
          <Copy text={url} />
        </div>
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

interface Asked {
  run: Run;
  wait: Wait;
}

function Detail({ run, wait, done }: Asked & { done(words: string): void }): ReactNode {
  useRunEvents(run.id);
  return (
    <article className="decision" aria-label={promptOf(wait)}>
      <div className="question">
        <h2>{promptOf(wait)}</h2>
        <p className="dim">
          <Link href={`/runs/${run.id}`}>{run.task_id}</Link> · asked{" "}
          <Time at={wait.created_at} /> · <Expiry at={wait.timeout_at} />
        </p>
        <Answer wait={wait} done={done}>
          <PhoneLink wait={wait} />
        </Answer>
      </div>
      <div className="about">
        <Section title="Changes so far">
          <DiffView path={`/runs/${run.id}/diff`} />
        </Section>
        <Section
          title="Last lines of the log"
          aside={<Link href={`/runs/${run.id}`}>The whole log</Link>}
        >
          <RecentLog runId={run.id} />
        </Section>
      </div>
    </article>
  );
}

function Waiting({ say }: { say(words: string): void }): ReactNode {
  const newest = useRef("");
  const pages = useRunPages({ status: "waiting" }, newest);
  const { hash } = useAddress();
  const list = pages.runs.flatMap((run): Asked[] =>
    run.pending_wait?.token_id ? [{ run, wait: run.pending_wait }] : [],
  );
  const found = list.findIndex(({ wait }) => `#${wait.id}` === hash);
  const at = Math.max(0, found);
  const chosen = list[at];
  const open = (i: number): void => {
    const to = list[Math.max(0, Math.min(list.length - 1, i))];
    if (to) navigate(`/approvals#${to.wait.id}`, { replace: true });
  };
  useKeys([
    { keys: "j", words: "next question", act: () => open(at + 1) },
    { keys: "k", words: "previous question", act: () => open(at - 1) },
  ]);
  /* Those that wait for a time or a message may come before what a person is asked, or what the link is to. */
  const isMissing = pages.isLoaded && found < 0 && (hash !== "" || !chosen);
  useEffect(() => {
    if (isMissing && pages.hasMore) pages.more();
  });
  const isGone = isMissing && !pages.hasMore && hash !== "";
  useEffect(() => {
    if (isGone) say("That question is no longer open.");
  }, [isGone]);
  if (pages.error && !pages.isLoaded) return <Trouble error={pages.error} retry={pages.retry} />;
  if (pages.isLoaded && !pages.hasMore && !chosen)
    return (
      <Empty title="Nobody waits for you" command="helmr run human-in-the-loop">
        When a task calls <code>ctx.wait.human()</code>, its question appears here. An example asks
        twice:
      </Empty>
    );
  if (!chosen) return null;
  return (
    <div className="inbox">
      <ul aria-label="Questions">
        {list.map(({ run, wait }, i) => (
          <li key={wait.id}>
            <Link href={`/approvals#${wait.id}`} aria-current={i === at}>
              <b>{promptOf(wait)}</b>
              <span className="dim">
                {run.task_id} · <Time at={wait.created_at} />
              </span>
            </Link>
          </li>
        ))}
        {pages.hasMore && (
          <li>
            <button type="button" className="quiet" onClick={pages.more}>
              Older questions
            </button>
          </li>
        )}
      </ul>
      <Detail
        key={chosen.wait.id}
        {...chosen}
        done={(words) => {
          say(words);
          const next = list[at + 1] ?? list[at - 1];
          navigate(`/approvals${next ? `#${next.wait.id}` : ""}`, { replace: true });
          pages.refresh();
        }}
      />
    </div>
  );
}

function History(): ReactNode {
  const { data, error, refresh } = useScoped<{ tokens: Token[] }>("/tokens", {
    status: "completed",
    limit: 100,
  });
  if (error && !data) return <Trouble error={error} retry={refresh} />;
  if (data?.tokens.length === 0)
    return (
      <Empty title="Nothing has been answered yet">
        What you and others answer is kept here: what was asked, what was said, and by whom.
      </Empty>
    );
  const time = ({ completed_at }: Token): number => Date.parse(completed_at ?? "");
  return (
    <ul className="lines waits">
      {data?.tokens
        .toSorted((a, b) => time(b) - time(a))
        .map((token) => (
          <li key={token.id}>
            <span className="grow">
              {token.run_id ? (
                <Link href={`/runs/${token.run_id}`}>{wordsOfWait("token", token.metadata)}</Link>
              ) : (
                <b>{wordsOfWait("token", token.metadata)}</b>
              )}
              <AnsweredBy token={token} />
            </span>
          </li>
        ))}
    </ul>
  );
}

export default function Approvals(): ReactNode {
  const { may } = useScope();
  const [tab, setTab] = useSearch("tab", "Waiting");
  const [said, setSaid] = useState("");
  const names = may("tokens:read") ? ["Waiting", "Answered"] : ["Waiting"];
  return (
    <>
      <PageHead
        title="Approvals"
        lead={
          <span className="key-hints">
            <kbd>j</kbd> <kbd>k</kbd> move, <kbd>a</kbd> approves, <kbd>x</kbd> rejects,{" "}
            <kbd>m</kbd> writes
          </span>
        }
      />
      <p role="status" className="said">
        {said}
      </p>
      <Tabs label="Questions" names={names} value={tab} choose={setTab}>
        {tab === "Waiting" ? <Waiting say={setSaid} /> : <History />}
      </Tabs>
    </>
  );
}
