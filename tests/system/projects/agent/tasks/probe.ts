import { task } from "@helmr/sdk"
import { execFileSync } from "node:child_process"
import { readdirSync } from "node:fs"
import { sb } from "./agent.ts"

export const probe = task({
  id: "probe",
  sandbox: sb,
  run: async (ctx) => ({
    cwd: process.cwd(),
    path: ctx.workspace.path,
    copied: readdirSync("/opt/task").sort(),
    tools: ["git", "rg", "bun"].map(
      (name) => execFileSync(name, ["--version"], { encoding: "utf8" }).split("\n")[0],
    ),
  }),
})
