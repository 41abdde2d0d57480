import { task } from "@helmr/sdk"; import { sb } from "./agent"; export const probe = task({ id: "probe", sandbox: sb,
run: async (ctx) => ({ cwd: process.cwd(), path: ctx.workspace.path }) })
