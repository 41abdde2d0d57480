// The image of the README, as it is printed there; the task only looks at what it is running on.
import { cache, image, sandbox, source, task } from "@helmr/sdk"
import { execFileSync } from "node:child_process"
const base = image("repo-agent")
.from("node:24-bookworm-slim")
.workdir("/workspace")
.run(["npm", "install", "-g", "bun@1.3.10"])
.copy("/workspace/package.json", source.file("package.json"))
.run(["bun", "install"], {
cache: [{ mountPath: "/root/.bun/install/cache", cache: cache("repo-agent-bun") }],
})
.run([
"sh",
"-ceu",
"apt-get update && apt-get install -y git ripgrep",
])
const sbx = sandbox("repo-agent")
.image(base)
.resources({ cpu: 2, memory: "4Gi" })
export const reviewPr = task({
id: "review-pr",
sandbox: sbx,
run: async (_event: { prNumber: number }, _ctx) => ({
cwd: process.cwd(),
tools: ["git", "rg", "bun"].map(
(name) => execFileSync(name, ["--version"], { encoding: "utf8" }).split("\n")[0],
),
}),
})
