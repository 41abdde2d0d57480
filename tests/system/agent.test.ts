// What an agent may do in its sandbox, in a task and at a terminal alike: install packages of the distribution, clone,
// commit, and push with its credentials to a forge that wants them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { apiKey, binary, client, deployed, printed, url } from "./lib/helmr.ts";
import { outside } from "./lib/outside.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";
import { Screen } from "./lib/tmux.ts";

/* Sandboxes reach no private address, so the forge is in there with them: git's own server behind a password. */
const forge = `import { spawn } from "node:child_process";
import { createServer } from "node:http";

const wanted = "Basic " + Buffer.from("agent:" + process.argv[2]).toString("base64");

createServer((request, response) => {
  if (request.headers.authorization !== wanted) {
    response.writeHead(401, { "www-authenticate": "Basic realm=forge" }).end();
    return;
  }
  const { pathname, search } = new URL(request.url, "http://forge");
  const git = spawn("git", ["http-backend"], {
    stdio: ["pipe", "pipe", "inherit"],
    env: {
      ...process.env,
      GIT_PROJECT_ROOT: process.cwd(),
      GIT_HTTP_EXPORT_ALL: "1",
      REMOTE_USER: "agent",
      REQUEST_METHOD: request.method,
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
    },
  });
  request.pipe(git.stdin);
  const said = [];
  git.stdout.on("data", (bytes) => said.push(bytes));
  git.on("close", () => {
    const all = Buffer.concat(said);
    const end = all.indexOf("\\r\\n\\r\\n");
    const lines = all.subarray(0, end).toString().split("\\r\\n").map((line) => line.split(": "));
    const status = lines.find(([name]) => name === "Status")?.[1] ?? "200";
    for (const [name, value] of lines) if (name !== "Status") response.setHeader(name, value);
    response.writeHead(parseInt(status)).end(all.subarray(end + 4));
  });
}).listen(3000, "127.0.0.1", () => console.log("the forge is open"));
`;

const script = `set -eu
apt-get -q update
apt-get -qy install --no-install-recommends git ripgrep
[ -d hub.git ] || git init -q --bare -b main hub.git
rm -rf clone
mkfifo opened
node forge.mjs "$TOKEN" > opened &
forge=$!
grep -q open < opened
rm opened
if git -c credential.helper= clone -q http://agent:wrong@127.0.0.1:3000/hub.git refused; then exit 9; fi
git clone -q "http://agent:$TOKEN@127.0.0.1:3000/hub.git" clone
cd clone
git config user.name Agent
git config user.email agent@example.com
echo "$1" >> lines.txt
git add -A
git commit -qm "$1"
git push -q origin HEAD:main
cd ..
kill "$forge"
rg --fixed-strings --line-number "$1" clone/lines.txt
git --no-pager -C hub.git log --format='pushed: %s' main
`;

const files = {
  "tasks/a.ts": `import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

export const works = task({
  id: "works",
  sandbox: sandbox("agent").image(image("agent").from("node:24-bookworm-slim")),
  secrets: { FORGE_TOKEN: { env: "TOKEN" } },
  run: async () => {
    writeFileSync("forge.mjs", ${JSON.stringify(forge)});
    writeFileSync("work.sh", ${JSON.stringify(script)});
    return execFileSync("sh", ["work.sh", "by the task"], { encoding: "utf8" });
  },
});
`,
};

const { skip = false } = await outside();

test("packages are installed and commits are pushed, in a task and in a shell", { skip }, async (t) => {
  const scope = declaredScope();
  await printed(["secret", "set", "FORGE_TOKEN"], { input: "0penSesame-for-the-forge" });
  await printed(["deployment", "promote", await deployed(project(scope, files))]);
  const { id } = await client.tasks.trigger("works");
  const { status, output, error, workspaceId } = await client.runs.wait(id, { timeoutMs: 300_000 });
  assert.equal(status, "succeeded", JSON.stringify(error));
  assert.match(output as string, /^1:by the task\npushed: by the task\n$/m);

  const env = { HELMR_API_URL: url, HELMR_API_KEY: apiKey };
  const screen = new Screen(t, [binary, "workspace", "shell", workspaceId], { env });
  await screen.shows(/^[#$]/m);
  screen.enter("command -v git || echo 'what was installed is gone'");
  await screen.shows(/^what was installed is gone$/m);
  screen.enter("clear; TOKEN=typed sh work.sh 'at a terminal'");
  await screen.shows(/^2:at a terminal\npushed: at a terminal\npushed: by the task$/m);
  screen.enter("exit");
  await screen.shows(/^\[code 0\]$/m);
  await printed(["workspace", "stop", workspaceId]);
});
