// Every image step that leaves something to be seen at run time.
import { image, sandbox, source, task } from "@helmr/sdk";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";

const parts = image("parts")
  .from("debian:bookworm-slim")
  .run(["mkdir", "-p", "/out/deep"])
  .run(["sh", "-c", "echo a part > /out/deep/part && chmod 4750 /out/deep/part"])
  .run(["ln", "-s", "deep/part", "/out/link"]);

const built = image("steps")
  .from("node:24-bookworm-slim")
  .env("GREETING", "good morning")
  .workdir("/srv/app")
  .run(["sh", "-c", 'echo "$GREETING from $(pwd)" > made.txt'])
  .copy("copied", source.directory("./files", { ignore: ["*.log", "deep/*.tmp"] }))
  .copy("/usr/local/bin/tool", source.file("files/tool"))
  .copyFrom("/srv/parts", parts, "/out")
  .copyFrom("one/part", parts, "/out/deep/part")
  .run(["useradd", "--create-home", "--uid", "1234", "agent"])
  .user("agent")
  .run(["sh", "-c", "id -un > /tmp/made-by && cp /tmp/made-by ~/made-by"]);

export const look = task({
  id: "look",
  sandbox: sandbox("steps").image(built).resources({ cpu: 1, memory: "512Mi" }),
  run: async (ctx) => ({
    made: readFileSync("/srv/app/made.txt", "utf8").trim(),
    copied: readdirSync("/srv/app/copied", { recursive: true }).sort(),
    parts: readdirSync("/srv/parts", { recursive: true }).sort(),
    link: readlinkSync("/srv/parts/link"),
    mode: statSync("/srv/app/one/part").mode.toString(8),
    tool: execFileSync("tool", { encoding: "utf8" }).trim(),
    madeBy: readFileSync("/home/agent/made-by", "utf8").trim(),
    greeting: process.env.GREETING,
    cwd: process.cwd(),
    path: ctx.workspace.path,
    user: [process.getuid?.(), process.env.USER, process.env.HOME],
    canWriteWorkspace: (execFileSync("touch", ["mine"]), true),
  }),
});
