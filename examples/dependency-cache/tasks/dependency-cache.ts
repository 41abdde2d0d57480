import { cache, image, sandbox, source, task } from "@helmr/sdk";
import { readFile } from "node:fs/promises";

const built = image("dependency-cache")
  .from("node:24-bookworm-slim")
  .workdir("/workspace")
  .copy("/workspace/package.json", source.file("package.json"))
  // What npm downloads stays outside the image, for every later build of this project.
  .run(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund"], {
    cache: [{ mountPath: "/root/.npm", cache: cache("dependency-cache-npm") }],
  })
  .copy("/opt/build", source.directory("./build"))
  // A cache of one's own: parts that are made already are not made again.
  .run(["node", "/opt/build/parts.mjs"], {
    cache: [{ mountPath: "/var/cache/parts", cache: cache("dependency-cache-parts") }],
  });

export const dependencyCache = task({
  id: "dependency-cache",
  sandbox: sandbox("dependency-cache").image(built),
  maxDuration: "1m",
  run: async () => {
    const { version } = JSON.parse(
      await readFile("/workspace/node_modules/picocolors/package.json", "utf8"),
    ) as { version: string };
    const parts = (await readFile("/opt/parts.txt", "utf8")).trim().split("\n");
    return { picocolors: version, parts: parts.length };
  },
});
