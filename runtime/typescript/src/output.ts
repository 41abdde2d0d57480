// Standard output and error of the task. Node queues writes to a full pipe and forgets the queue at
// process.exit; here they block instead: nothing is lost and a slow reader slows the task.

interface Blocking {
  _handle?: { setBlocking?: (on: boolean) => number };
}

function makeBlocking(name: "stdout" | "stderr"): void {
  const open = Object.getOwnPropertyDescriptor(process, name)?.get;
  if (open === undefined) return;
  let stream: unknown;
  /* Still opened at its first use: a task that prints nothing does not pay for it. */
  const get = (): unknown => {
    if (stream === undefined) {
      stream = open.call(process);
      (stream as Blocking)._handle?.setBlocking?.(true);
    }
    return stream;
  };
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get });
}

export function blockOnOutput(): void {
  makeBlocking("stdout");
  makeBlocking("stderr");
}
