// The guest adapter: one process, one mode, spoken to over one descriptor. Nothing of a run is in
// argv or the environment, and no user code is loaded before the agent has said start.
import { answerReseed } from "./barrier.ts";
import { Channel } from "./channel.ts";
import { decodeBody } from "./codec.ts";
import type { Frame } from "./codec.ts";
import { adoptVariable } from "./environment.ts";
import { registerResolution } from "./hooks.ts";
import { STREAM_PAYLOAD } from "./messages.ts";
import type { APreload, AStart } from "./messages.ts";
import { adapterVersion, sdkEntry } from "./places.ts";
import { preload } from "./preload.ts";
import { prepareRandom } from "./random.ts";
import { run } from "./run.ts";

/** What nearly every task needs, loaded while the server is asked whether the run may start. */
async function warmUp(): Promise<void> {
  require("node:stream");
  require("node:fs/promises");
  await import(sdkEntry);
}

/** The next frame that is not about the process itself: its variables, its random numbers. */
function receiveStart(channel: Channel): Frame {
  for (;;) {
    const frame = channel.receive();
    if (frame.name === "A_ENV") adoptVariable(frame);
    else if (frame.name === "A_RESEED") answerReseed(channel, frame);
    else return frame;
  }
}

/** What can be done before anybody's run is known, for all of a kind. It changes no run. */
async function prepare(channel: Channel, frame: Frame): Promise<void> {
  channel.send("A_PRELOADED", await preload(decodeBody<APreload>(frame.name, frame.body)));
}

async function begin(channel: Channel): Promise<void> {
  let frame = receiveStart(channel);
  for (; frame.name === "A_PRELOAD"; frame = receiveStart(channel)) await prepare(channel, frame);
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
  canReseed: prepareRandom() ? 1 : 0,
});
registerResolution();
void warmUp().then(() => begin(channel));
