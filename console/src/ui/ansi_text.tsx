// A line as a terminal would show it: colours, and nothing else of what it may contain.
import type { ReactNode } from "react";
import { pieces } from "./ansi.ts";

export function AnsiText({ text }: { text: string }): ReactNode {
  return pieces(text).map((piece, i) => (
    <span
      key={i}
      className={piece.classes}
      style={{
        ...(piece.color && { color: piece.color }),
        ...(piece.background && { background: piece.background }),
      }}
    >
      {piece.text}
    </span>
  ));
}
