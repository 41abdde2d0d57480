// The guest adapter: one process, one mode, spoken to over one descriptor. Nothing of a run is in
// argv or the environment, and no user code is loaded before the agent has said start.
import { Channel } from "./channel.ts";
import { decodeBody } from "./codec.ts";
import type { Frame } from "./codec.ts";
import { registerResolution } from "./hooks.ts";
import { STREAM_PAYLOAD } from "./messages.ts";
import type { AEnv, AStart } from "./messages.ts";
import { adapterVersion, sdkEntry } from "./places.ts";
import { run } from "./run.ts";

/** What nearly every task needs, loaded while the server is asked whether the run may start. */
async function warmUp(): Promise<void> {
  require("node:stream");
  require("node:fs/promises");
  await import(sdkEntry);
}

/** The next frame that is no variable; those are this process's own from here on. */
function receiveStart(channel: Channel): Frame {
  for (;;) {
    const frame = channel.receive();
    if (frame.name !== "A_ENV") return frame;
    const { name, value } = decodeBody<AEnv>(frame.name, frame.body);
    process.env[name] = Buffer.from(value).toString();
  }
}

function begin(channel: Channel): void {
  const frame = receiveStart(channel);
  if (frame.name !== "A_START") throw new Error(`${frame.name} came before A_START`);
  const start = decodeBody<AStart>(frame.name, frame.body);
  /* An absent number is 0 on the other side, and no JSON has length 0. */
  const payload = start.payloadLen ? channel.receiveData(STREAM_PAYLOAD) : undefined;
  if (start.mode === "run") {
    run(channel, start, payload);
    return;
  }
  /* A file of its own: a run never reads it. */
  const { build } = require("./build.js") as typeof import("./build/build.ts");
  const options: unknown = JSON.parse(payload?.toString() || start.options || "{}");
  build(channel, start.mode, start.workspacePath, options);
}

const channel = new Channel(Number(process.env.HELMR_CONTROL_FD ?? "3"));
delete process.env.HELMR_CONTROL_FD;
channel.send("A_HELLO", {
  adapter: adapterVersion,
  nodeVersion: process.versions.node,
  pid: process.pid,
});
registerResolution();
void warmUp().then(() => begin(channel));
