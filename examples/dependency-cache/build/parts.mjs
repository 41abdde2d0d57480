// Stands for a compiler: each part is slow to make, and kept under the digest of what it is made of.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const sources = ["alpha", "beta", "gamma"];
let reused = 0;

const parts = sources.map((source) => {
  const file = `/var/cache/parts/${createHash("sha256").update(source).digest("hex")}`;
  if (existsSync(file)) reused++;
  else writeFileSync(file, source.toUpperCase());
  return readFileSync(file, "utf8");
});
writeFileSync("/opt/parts.txt", `${parts.join("\n")}\n`);
console.log(`parts: ${sources.length - reused} made, ${reused} reused`);
