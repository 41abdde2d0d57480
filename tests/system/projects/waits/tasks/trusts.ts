// Whose certificates a program accepts before a wait, and whose after it.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:tls";
import { task, tokens } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

interface Identity {
  readonly key: string;
  readonly cert: string;
}

/* What a client that trusts this certificate says to a server that shows it. */
async function verdict(identity: Identity): Promise<string> {
  const server = createServer(identity, (socket) => socket.end());
  server.on("tlsClientError", () => undefined);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const options = { host: "127.0.0.1", servername: "localhost", port, ca: identity.cert };
  const said = await new Promise<string>((resolve) => {
    let outcome = "closed";
    const socket = connect(options, () => (outcome = "accepted"));
    socket.on("error", ({ code, message }: NodeJS.ErrnoException) => (outcome = code ?? message));
    socket.on("close", () => resolve(outcome));
    socket.resume();
  });
  server.close();
  await once(server, "close");
  return said;
}

export const trusts = task({
  id: "trusts",
  sandbox: small,
  run: async (_event: unknown, ctx) => {
    const told = await tokens.create({ timeout: "1h" });
    const given = await tokens
      .wait<Record<string, Identity>>(told, { idleTimeout: "1h" })
      .unwrap();
    const look = async (): Promise<Record<string, string>> => {
      const seen: Record<string, string> = {};
      for (const [name, identity] of Object.entries(given)) seen[name] = await verdict(identity);
      return seen;
    };
    const before = await look();
    await ctx.wait.human({ displayText: "Later?" });
    return { before, after: await look() };
  },
});
