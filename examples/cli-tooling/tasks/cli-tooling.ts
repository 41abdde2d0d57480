import { image, sandbox, source, task } from "@helmr/sdk";
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const install = [
  "apt-get update",
  "apt-get install -y --no-install-recommends ripgrep",
  "rm -rf /var/lib/apt/lists/*",
].join(" && ");

const tools = image("cli-tooling")
  .from("node:24-bookworm-slim")
  .run(["sh", "-ceu", install])
  .copy("/opt/searched", source.directory("./tasks"));

export const cliTooling = task({
  id: "cli-tooling",
  sandbox: sandbox("cli-tooling").image(tools),
  maxDuration: "1m",
  run: async ({ pattern }: { pattern: string }, ctx) => {
    const args = ["--line-number", "--no-heading", "--fixed-strings", "--", pattern, "."];
    const { stdout } = await promisify(execFile)("rg", args, {
      cwd: "/opt/searched",
      signal: ctx.signal,
    });
    console.log(stdout.trimEnd());
    return { matches: stdout.trimEnd().split("\n").length };
  },
});
