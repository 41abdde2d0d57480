// Which of very many rows of one height are near the screen, and the room that the others would take.
import { useLayoutEffect, useRef, useState } from "react";
import type { ReactNode, RefObject } from "react";

const beyond = 12;

export interface RowsInView {
  /** Of the element that the rows are in. */
  box: RefObject<HTMLTableSectionElement | null>;
  first: number;
  last: number;
  roomBefore: number;
  roomAfter: number;
  scrollTo(row: number): void;
}

/** The page itself is what scrolls; how high a row is, is measured at one that is drawn. */
export function useRowsInView(count: number): RowsInView {
  const box = useRef<HTMLTableSectionElement>(null);
  const [rowPx, setRowPx] = useState(40);
  const [first, setFirst] = useState(0);
  const [shown, setShown] = useState(60);
  useLayoutEffect(() => {
    const look = (): void => {
      const row = box.current?.querySelector<HTMLElement>("[data-row]");
      if (!box.current || !row) return;
      const height = row.offsetHeight || 40;
      const above = -box.current.getBoundingClientRect().top;
      setRowPx(height);
      setFirst(Math.max(0, Math.floor(above / height) - beyond));
      setShown(Math.ceil(window.innerHeight / height) + 2 * beyond);
    };
    look();
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    return () => {
      window.removeEventListener("scroll", look);
      window.removeEventListener("resize", look);
    };
  }, [count]);
  const from = Math.min(first, Math.max(0, count - 1));
  const last = Math.min(count, from + shown);
  return {
    box,
    first: from,
    last,
    roomBefore: from * rowPx,
    roomAfter: (count - last) * rowPx,
    scrollTo: (row) => {
      const top = box.current?.getBoundingClientRect().top ?? 0;
      const at = top + row * rowPx;
      const edge = 3 * rowPx;
      if (at < edge) window.scrollBy({ top: at - edge });
      else if (at > window.innerHeight - edge)
        window.scrollBy({ top: at - window.innerHeight + edge });
    },
  };
}

/** What is not drawn, as a row of the same height. */
export function Room({ px }: { px: number }): ReactNode {
  return px > 0 && <tr aria-hidden="true" className="room" style={{ height: px }} />;
}
