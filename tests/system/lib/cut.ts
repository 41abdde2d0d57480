// A wire that can be cut: passes the bytes of every connection on to a port, and drops all of them
// when told to.
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import type { Scope } from "./scope.ts";

export class Wire {
  /** Bytes that came back from the other end, over all connections. */
  received = 0;
  connections = 0;
  /** Called with every piece that comes back. */
  onReceived: () => void = () => {};
  readonly #open = new Set<Socket>();
  #isDown = false;
  port = 0;

  async lead(t: Scope, to: number): Promise<number> {
    const server = createServer((near) => this.#join(near, to));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      server.close();
      this.cut();
    });
    this.port = (server.address() as AddressInfo).port;
    return this.port;
  }

  #join(near: Socket, to: number): void {
    if (this.#isDown) {
      near.destroy();
      return;
    }
    const far = connect(to, "127.0.0.1");
    this.connections++;
    for (const socket of [near, far]) {
      this.#open.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#open.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far);
    far.on("data", (piece: Buffer) => {
      this.received += piece.length;
      if (!near.write(piece)) {
        far.pause();
        near.once("drain", () => far.resume());
      }
      this.onReceived();
    });
    far.on("end", () => near.end());
  }

  /** At once, with whatever is on its way. */
  cut(): void {
    for (const socket of this.#open) socket.resetAndDestroy();
  }

  /** Nothing gets through until it is up again. */
  set isDown(down: boolean) {
    this.#isDown = down;
    if (down) this.cut();
  }
}
