// Waits with TCP sockets open: its own, or those of a child.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { task } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

function asked(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.once("data", (data) => resolve(String(data)));
    socket.write("it");
  });
}

export const talks = task({
  id: "talks",
  sandbox: small,
  run: async (_event: unknown, ctx) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.on("data", (data) => socket.write(`heard ${data}`));
    });
    server.listen(0);
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const kept = connect(port, "127.0.0.1");
    const lost = new Promise<string>((resolve) =>
      kept.on("error", ({ code }: NodeJS.ErrnoException) => resolve(code as string)),
    );
    const before = await asked(kept);
    await ctx.wait.human({ displayText: "Still there?" });
    const found = await Promise.race([asked(kept), lost]);
    const fresh = connect(port, "127.0.0.1");
    const after = await asked(fresh);
    for (const socket of [kept, fresh]) socket.destroy();
    server.close();
    return { before, kept: found, after };
  },
});

const child = "require('net').createServer().listen(0, () => console.log('listening'))";

export const hosts = task({
  id: "hosts",
  sandbox: small,
  run: async (_event: unknown, ctx) => {
    const server = spawn(process.execPath, ["-e", child]);
    await once(server.stdout, "data");
    const answer = await ctx.wait.human<string>({ displayText: "Whose?" });
    server.kill();
    return { answer };
  },
});
