import { HelmrApiError } from "@helmr/sdk";
import type { ReactNode } from "react";

interface Words {
  title: string;
  next: string;
}

/** What went wrong and what to do about it, in the words of whoever knows. */
export function wordsOf(error: Error): Words {
  if (error instanceof HelmrApiError) {
    const said = saidBy(error);
    if (error.status === 403)
      return { title: said, next: "Ask an owner for a role that may do this." };
    if (error.status === 404)
      return { title: said, next: "It may have been removed, or is in another environment." };
    if (error.status === 409)
      return { title: said, next: "Something changed meanwhile; look again, then retry." };
    if (error.status === 429) return { title: said, next: "Wait a moment, then retry." };
    return { title: said, next: error.requestId ? `Request ${error.requestId}` : "" };
  }
  if (error instanceof TypeError)
    return {
      title: "The server cannot be reached.",
      next: "It may be restarting; this page tries again by itself.",
    };
  return { title: error.message, next: "" };
}

export function saidBy(error: HelmrApiError): string {
  try {
    const body = JSON.parse(error.message.replace(/^Helmr API \d+: /, "")) as { error?: string };
    return body.error ?? error.message;
  } catch {
    return error.message;
  }
}

export function Trouble({ error, retry }: { error: Error; retry?: () => void }): ReactNode {
  const { title, next } = wordsOf(error);
  return (
    <div className="trouble" role="alert">
      <strong>{title}</strong>
      {next && <span>{next}</span>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
