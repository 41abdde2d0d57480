// Small pieces that every page is made of.
import { useId, useState } from "react";
import type { FormEvent, ReactNode } from "react";
import { Link } from "../app/router.tsx";
import { Trouble } from "./trouble.tsx";

export function Status({ value }: { value: string }): ReactNode {
  return (
    <span className={`status is-${value.replaceAll("_", "-")}`}>
      <i aria-hidden="true" />
      {value.replaceAll("_", " ")}
    </span>
  );
}

export function Id({ value, href }: { value: string; href?: string }): ReactNode {
  const short = <code title={value}>{value.slice(-12)}</code>;
  return href ? <Link href={href}>{short}</Link> : short;
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }): ReactNode {
  const [isDone, setDone] = useState(false);
  return (
    <button
      type="button"
      className="quiet"
      onClick={() => {
        void navigator.clipboard.writeText(text).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1500);
        });
      }}
    >
      {isDone ? "Copied" : label}
    </button>
  );
}

export function PageHead({
  title,
  children,
  lead,
}: {
  title: ReactNode;
  children?: ReactNode;
  lead?: ReactNode;
}): ReactNode {
  return (
    <header className="page-head">
      <div>
        <h1>{title}</h1>
        {lead && <p className="dim">{lead}</p>}
      </div>
      {children && <div className="actions">{children}</div>}
    </header>
  );
}

/** Says what would be here, and the command that makes it so. */
export function Empty({
  title,
  children,
  command,
}: {
  title: string;
  children?: ReactNode;
  command?: string;
}): ReactNode {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
      {command && (
        <div className="command">
          <code>{command}</code>
          <Copy text={command} />
        </div>
      )}
    </div>
  );
}

export function Json({ value }: { value: unknown }): ReactNode {
  const text = JSON.stringify(value, null, 2) ?? "null";
  return (
    <div className="json">
      <Copy text={text} />
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}

export function Facts({ rows }: { rows: [string, ReactNode][] }): ReactNode {
  return (
    <dl className="facts">
      {rows
        .filter(([, value]) => value !== undefined && value !== null && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export function Section({
  title,
  children,
  aside,
}: {
  title: string;
  children: ReactNode;
  aside?: ReactNode;
}): ReactNode {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <div className="section-head">
        <h2 id={id}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

/** One part at a time; the arrows go from one to the next. */
export function Tabs({
  label,
  names,
  value,
  choose,
  children,
}: {
  label: string;
  names: readonly string[];
  value: string;
  choose(name: string): void;
  children: ReactNode;
}): ReactNode {
  const id = useId();
  const step = (by: number, list: HTMLElement): void => {
    const at = (names.indexOf(value) + by + names.length) % names.length;
    choose(names[at] as string);
    list.querySelectorAll<HTMLElement>("[role=tab]")[at]?.focus();
  };
  return (
    <>
      <div
        className="tabs"
        role="tablist"
        aria-label={label}
        onKeyDown={(event) => {
          const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
          if (by !== 0) step(by, event.currentTarget);
        }}
      >
        {names.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            aria-selected={value === name}
            aria-controls={value === name ? id : undefined}
            tabIndex={value === name ? 0 : -1}
            onClick={() => choose(name)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={id} aria-labelledby={`${id}-${value}`}>
        {children}
      </div>
    </>
  );
}

export function Field({
  label,
  hint,
  children,
}: {
  label: string;
  hint?: string;
  children: (id: string) => ReactNode;
}): ReactNode {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
      {hint && <small className="dim">{hint}</small>}
    </div>
  );
}

/** A form whose submission may fail: busy while it is sent, and the reason where it stands. */
export function useSubmit(work: () => Promise<void>): {
  error: Error | undefined;
  isBusy: boolean;
  submit(event?: FormEvent): void;
} {
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  return {
    error,
    isBusy,
    submit: (event) => {
      event?.preventDefault();
      if (isBusy) return;
      setBusy(true);
      setError(undefined);
      work()
        .catch(setError)
        .finally(() => setBusy(false));
    },
  };
}

/** A button that asks once more before it does what cannot be undone. */
export function Confirm({
  label,
  question,
  act,
  isPlain,
}: {
  label: string;
  question: string;
  act: () => Promise<unknown>;
  isPlain?: boolean;
}): ReactNode {
  const [isAsking, setAsking] = useState(false);
  const { error, isBusy, submit } = useSubmit(async () => {
    await act();
    setAsking(false);
  });
  if (!isAsking)
    return (
      <button
        type="button"
        className={isPlain ? "quiet" : "quiet grave"}
        onClick={() => setAsking(true)}
      >
        {label}
      </button>
    );
  return (
    <span className="confirm" role="group" aria-label={question}>
      <span>{question}</span>
      <button type="button" className="danger" disabled={isBusy} autoFocus onClick={() => submit()}>
        {label}
      </button>
      <button type="button" className="quiet" onClick={() => setAsking(false)}>
        Keep
      </button>
      {error && <Trouble error={error} />}
    </span>
  );
}

/** What is shown this one time, to be copied. */
export function Once({ words, text }: { words: string; text: string | undefined }): ReactNode {
  if (text === undefined) return null;
  return (
    <div className="once" role="status">
      <strong>{words}</strong>
      <div className="command">
        <code>{text}</code>
        <Copy text={text} />
      </div>
    </div>
  );
}

/** A form that needs a name only. */
export function NameForm({ create }: { create(name: string): Promise<void> }): ReactNode {
  const [name, setName] = useState("");
  const { error, isBusy, submit } = useSubmit(async () => {
    await create(name);
    setName("");
  });
  return (
    <form onSubmit={submit} className="narrow">
      <Field label="Name">
        {(id) => (
          <input id={id} required value={name} onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      <button disabled={isBusy}>Create</button>
      {error && <Trouble error={error} />}
    </form>
  );
}
