// Something in front of the page, gone by Escape or a click beside it.
import { useEffect, useRef } from "react";
import type { ReactNode } from "react";

export function Dialog({
  label,
  className,
  close,
  children,
}: {
  label: string;
  className: string;
  close(): void;
  children: ReactNode;
}): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      className={className}
      aria-label={label}
      onClose={close}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      {children}
    </dialog>
  );
}
