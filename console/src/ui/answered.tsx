// Who answered a question, and what.
import type { ReactNode } from "react";
import type { Token } from "../api/types.ts";
import { Status } from "./parts.tsx";
import { Time } from "./time.tsx";

const others: Record<string, string> = {
  public_access_token: "somebody with the link",
  callback: "a callback",
  key: "an API key",
};

/** What was said, as a person reads it. */
export function Said({ data }: { data: unknown }): ReactNode {
  const { approved, message, text } = (data ?? {}) as Record<string, unknown>;
  const words = typeof message === "string" ? message : typeof text === "string" ? text : undefined;
  return (
    <>
      {typeof approved === "boolean" && <Status value={approved ? "approved" : "rejected"} />}
      {words !== undefined && <q>{words}</q>}
      {typeof approved !== "boolean" && words === undefined && (
        <code className="said-data">{JSON.stringify(data)?.slice(0, 300) ?? "null"}</code>
      )}
    </>
  );
}

export function AnsweredBy({ token }: { token: Token }): ReactNode {
  const by = token.completed_by;
  return (
    <span className="answered">
      <Said data={token.data} />
      <span className="dim">
        by {by?.name ?? others[by?.type ?? ""] ?? by?.type ?? "somebody"} ·{" "}
        <Time at={token.completed_at} />
      </span>
    </span>
  );
}
