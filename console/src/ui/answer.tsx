// The form a wait asks for, and its answer.
import { useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/client.ts";
import type { Wait } from "../api/types.ts";
import { useScope } from "../app/scope.tsx";
import { Field, useSubmit } from "./parts.tsx";
import { Trouble } from "./trouble.tsx";

export function formOf(wait: Wait): string {
  const form = wait.metadata["form"] as { type?: string } | undefined;
  return form?.type ?? "json";
}

export function promptOf(wait: Wait): string {
  const prompt = wait.metadata["prompt"];
  return typeof prompt === "string" && prompt !== "" ? prompt : "An answer is wanted";
}

export function Answer({ wait, done }: { wait: Wait; done?: () => void }): ReactNode {
  const { place, may } = useScope();
  const form = formOf(wait);
  const [text, setText] = useState("");
  const [isRaw, setRaw] = useState(form === "json");
  const [json, setJson] = useState("null");
  const { error, isBusy, submit } = useSubmit(async () => {
    await answer(JSON.parse(json));
  });
  const answer = async (data: unknown): Promise<void> => {
    await send("POST", `/tokens/${wait.token_id}/complete`, { data }, place);
    done?.();
  };
  const direct = useSubmit(async () =>
    answer(form === "message" ? { text } : { approved: true, ...(text && { message: text }) }),
  );
  const reject = useSubmit(async () => answer({ approved: false, ...(text && { message: text }) }));
  if (!may("tokens:complete")) return <p className="dim">Your role may not answer this.</p>;
  const failed = error ?? direct.error ?? reject.error;
  return (
    <div className="answer">
      {isRaw ? (
        <form onSubmit={submit}>
          <Field label="Answer as JSON">
            {(id) => (
              <textarea
                id={id}
                rows={4}
                value={json}
                onChange={(event) => setJson(event.target.value)}
                spellCheck={false}
              />
            )}
          </Field>
          <button disabled={isBusy}>Send</button>{" "}
        </form>
      ) : (
        <form onSubmit={direct.submit}>
          <Field label={form === "message" ? "Message" : "Message (optional)"}>
            {(id) => (
              <textarea
                id={id}
                rows={2}
                required={form === "message"}
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            )}
          </Field>
          <div className="filters">
            <button
              className={form === "approval" ? "approve" : ""}
              disabled={direct.isBusy || reject.isBusy}
            >
              {form === "approval" ? "Approve" : "Send"}
            </button>
            {form === "approval" && (
              <button
                type="button"
                className="danger"
                disabled={direct.isBusy || reject.isBusy}
                onClick={() => reject.submit()}
              >
                Reject
              </button>
            )}
          </div>
        </form>
      )}
      {form !== "json" && (
        <button type="button" className="quiet" onClick={() => setRaw(!isRaw)}>
          {isRaw ? "Back to the form" : "Answer with JSON"}
        </button>
      )}
      {failed && <Trouble error={failed} />}
    </div>
  );
}
