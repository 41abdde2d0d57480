import type { Channel } from "../channel.ts";

export function build(_channel: Channel, mode: string, _options: unknown): void {
  throw new Error(`unknown mode ${mode}`);
}
