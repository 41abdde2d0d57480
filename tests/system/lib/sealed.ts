// The sealed files of a Helmr's store, to be looked at and to be damaged.
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { statSync, writeFileSync } from "node:fs";

const magic = "HLMRSO01";
const checkpointDomain = 2;
const packClass = 1;

function headOf(path: string): Buffer {
  const fd = openSync(path, "r");
  const bytes = Buffer.alloc(12);
  readSync(fd, bytes, 0, bytes.length, 0);
  closeSync(fd);
  return bytes;
}

/** The files that workers sealed with their own key, the server's keys being no use for them. */
export function checkpointFiles(dataDir: string): string[] {
  const store = `${dataDir}/store`;
  return readdirSync(store, { recursive: true, encoding: "utf8" })
    .map((name) => `${store}/${name}`)
    .filter((path) => statSync(path).isFile())
    .filter((path) => {
      const head = headOf(path);
      return head.toString("latin1", 0, 8) === magic && head[10] === checkpointDomain;
    });
}

export const isPack = (path: string): boolean => headOf(path)[11] === packClass;

/** Changes a file in place; gives what puts it back. */
export function damage(path: string, how: (content: Buffer) => Buffer): () => void {
  const whole = readFileSync(path);
  writeFileSync(path, how(Buffer.from(whole)));
  return () => writeFileSync(path, whole);
}
