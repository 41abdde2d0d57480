// Files as npm lays them out, for a task and for an anchor on the host: twenty in a package, in four
// folders, no two alike.
import { createHash } from "node:crypto";
import * as fs from "node:fs";

export interface Tree {
  files: number;
  bytes: number;
}

const parts = ["lib", "dist/esm", "dist/cjs", "test"];
const words = "export const value = require of function return module import default class ".repeat(40);

export const pathOf = (at: number): string =>
  `node_modules/package-${Math.floor(at / 20)}/${parts[at % 4]}/file-${at % 20}.js`;

export function fill(folder: string, { files, bytes }: Tree): void {
  const each = Math.floor(bytes / files);
  for (let at = 0; at < files; at++) {
    const path = `${folder}/${pathOf(at)}`;
    if (at % 20 < 4) fs.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    let text = "";
    for (let part = 0; text.length < each; part++) {
      const noise = createHash("sha512").update(`${at} ${part}`).digest("base64");
      text += noise + words.slice(0, 120 + (at % 50));
    }
    fs.writeFileSync(path, text.slice(0, each));
  }
}
