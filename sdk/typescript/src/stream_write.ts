// Several records one after another, in the order they were given.

export interface StreamWriter<T> {
  /** Settles when the record is stored. */
  write(value: T): Promise<void>;
  /** Settles when all records are stored; nothing can be written after it. */
  close(): Promise<void>;
}

export function streamWriter<T>(append: (value: T) => Promise<unknown>): StreamWriter<T> {
  let last: Promise<unknown> = Promise.resolve();
  let isClosed = false;
  return Object.freeze({
    write: async (value: T) => {
      if (isClosed) throw new TypeError("the writer is closed");
      /* After one that failed nothing may follow, or the order would have a hole. */
      const next = last.then(() => append(value));
      last = next;
      await next;
    },
    close: async () => {
      isClosed = true;
      await last;
    },
  });
}

/** Appends everything the source gives, at the pace of the server; tells how many records. */
export async function pipeInto<T>(
  source: Iterable<T> | AsyncIterable<T>,
  append: (value: T) => Promise<unknown>,
): Promise<number> {
  let n = 0;
  for await (const value of source) {
    await append(value);
    n++;
  }
  return n;
}
