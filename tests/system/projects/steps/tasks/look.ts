// Every image step that leaves something to be seen at run time.
import { image, sandbox, source, task } from "@helmr/sdk";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

const built = image("steps")
  .from("node:24-bookworm-slim")
  .env("GREETING", "good morning")
  .workdir("/srv/app")
  .run(["sh", "-c", 'echo "$GREETING from $(pwd)" > made.txt'])
  .copy("copied", source.directory("./files", { ignore: ["*.log"] }))
  .copy("/usr/local/bin/tool", source.file("files/tool"))
  .run(["useradd", "--create-home", "--uid", "1234", "agent"])
  .user("agent")
  .run(["sh", "-c", "id -un > /tmp/made-by && cp /tmp/made-by ~/made-by"]);

export const look = task({
  id: "look",
  sandbox: sandbox("steps").image(built).resources({ cpu: 1, memory: "512Mi" }),
  run: async (ctx) => ({
    made: readFileSync("/srv/app/made.txt", "utf8").trim(),
    copied: readdirSync("/srv/app/copied").sort(),
    tool: execFileSync("tool", { encoding: "utf8" }).trim(),
    madeBy: readFileSync("/home/agent/made-by", "utf8").trim(),
    greeting: process.env.GREETING,
    cwd: process.cwd(),
    path: ctx.workspace.path,
    user: [process.getuid?.(), process.env.USER, process.env.HOME],
    canWriteWorkspace: (execFileSync("touch", ["mine"]), true),
  }),
});
