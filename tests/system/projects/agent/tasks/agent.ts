import { image, sandbox, source, cache } from "@helmr/sdk"

const deps = cache("bun-install")
const installTools = [
  "apt-get update",
  "apt-get install -y --no-install-recommends git ripgrep",
  "rm -rf /var/lib/apt/lists/*",
].join(" && ")

const img = image("agent")
  .from("node:24-bookworm-slim")
  .workdir("/workspace")
  .run(["npm", "install", "-g", "bun@1.3.10"])
  .run(["sh", "-ceu", installTools])
  .copy("/workspace/package.json", source.file("package.json"))
  .run(["bun", "install"], {
    cache: [{ mountPath: "/root/.bun/install/cache", cache: deps }],
  })
  .copy("/opt/task", source.directory("./tasks"))

export const sb = sandbox("agent")
  .image(img)
  .workspace("/workspace")
  .resources({ cpu: 2, memory: "4Gi" })
