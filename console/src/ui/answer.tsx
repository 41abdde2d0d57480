// The form a wait asks for, and its answer.
import { useRef, useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/client.ts";
import type { Wait } from "../api/types.ts";
import { useKeys } from "../app/keys.ts";
import { useScope } from "../app/scope.tsx";
import { Field, useSubmit } from "./parts.tsx";
import { SchemaForm, formSchema } from "./schema_form.tsx";
import { Trouble } from "./trouble.tsx";

type Form = "approval" | "message" | "json";

function formOf(wait: Wait): Form {
  const { type } = (wait.metadata["form"] ?? {}) as { type?: unknown };
  return type === "approval" || type === "message" ? type : "json";
}

export function promptOf(wait: Wait): string {
  const prompt = wait.metadata["prompt"];
  return typeof prompt === "string" && prompt !== "" ? prompt : "An answer is wanted";
}

/** JSON that can be read, or why not. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`);
  }
}

function RawForm({
  isBusy,
  answer,
}: {
  isBusy: boolean;
  answer(read: () => unknown): void;
}): ReactNode {
  const [json, setJson] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        answer(() => parsed(json));
      }}
    >
      <Field label="Answer as JSON">
        {(id) => (
          <textarea
            id={id}
            rows={4}
            placeholder="{}"
            required
            value={json}
            onChange={(event) => setJson(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
                event.currentTarget.form?.requestSubmit();
            }}
            spellCheck={false}
          />
        )}
      </Field>
      <button disabled={isBusy}>Send</button>
    </form>
  );
}

function TextForm({
  form,
  isBusy,
  answer,
}: {
  form: Form;
  isBusy: boolean;
  answer(read: () => unknown): void;
}): ReactNode {
  const [text, setText] = useState("");
  const isApproval = form === "approval";
  const decide = (approved: boolean): void =>
    answer(() => ({ approved, ...(text && { message: text }) }));
  useKeys(
    isApproval
      ? [
          { keys: "a", words: "approve", act: () => decide(true) },
          { keys: "x", words: "reject", act: () => decide(false) },
        ]
      : [],
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isApproval) decide(true);
        else answer(() => ({ text }));
      }}
    >
      <Field label={isApproval ? "Message (optional)" : "Message"}>
        {(id) => (
          <textarea
            id={id}
            rows={isApproval ? 2 : 4}
            required={!isApproval}
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
                event.currentTarget.form?.requestSubmit();
              if (event.key === "Escape") event.currentTarget.blur();
            }}
          />
        )}
      </Field>
      <div className="decide">
        <button className={isApproval ? "approve" : ""} disabled={isBusy}>
          {isApproval ? "Approve" : "Send"}
        </button>
        {isApproval && (
          <button
            type="button"
            className="danger"
            disabled={isBusy}
            onClick={() => decide(false)}
          >
            Reject
          </button>
        )}
      </div>
    </form>
  );
}

function wordsOf(data: unknown): string {
  const approved = (data as { approved?: unknown } | null)?.approved;
  return approved === true ? "Approved" : approved === false ? "Rejected" : "Answered";
}

/** `children` stand beside the other ways to answer; `done` is told what became of it. */
export function Answer({
  wait,
  done,
  children,
}: {
  wait: Wait;
  done?: (words: string) => void;
  children?: ReactNode;
}): ReactNode {
  const { place, may } = useScope();
  const box = useRef<HTMLDivElement>(null);
  const form = formOf(wait);
  const schema = formSchema(wait.metadata["schema"]);
  const [isRaw, setRaw] = useState(false);
  const given = useRef<() => unknown>(() => null);
  const { error, isBusy, submit } = useSubmit(async () => {
    const data = given.current();
    const { status } = await send<{ status: string }>(
      "POST",
      `/tokens/${wait.token_id}/complete`,
      { data },
      place,
    );
    const words = status === "completed" ? wordsOf(data) : "Was answered like that already";
    done?.(`${words}: ${promptOf(wait)}`);
  });
  const answer = (read: () => unknown): void => {
    given.current = read;
    submit();
  };
  useKeys([
    {
      keys: "m",
      words: "write an answer",
      act: () => box.current?.querySelector<HTMLElement>("input,textarea,select")?.focus(),
    },
  ]);
  if (!may("tokens:complete")) return <p className="dim">Your role may not answer this.</p>;
  const hasForm = form !== "json" || schema !== undefined;
  return (
    <div className="answer" ref={box}>
      {isRaw || !hasForm ? (
        <RawForm isBusy={isBusy} answer={answer} />
      ) : form === "json" && schema ? (
        <SchemaForm schema={schema} isBusy={isBusy} send={(data) => answer(() => data)} />
      ) : (
        <TextForm form={form} isBusy={isBusy} answer={answer} />
      )}
      {error && <Trouble error={error} />}
      <div className="other-ways">
        {hasForm && (
          <button type="button" className="quiet" onClick={() => setRaw(!isRaw)}>
            {isRaw ? "Back to the form" : "Answer with JSON"}
          </button>
        )}
        {children}
      </div>
    </div>
  );
}
