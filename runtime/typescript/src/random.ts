// The random numbers of a process that may be copied. What Node drew ahead, or goes on from, is in
// its memory; two copies would go on with equal values.
import { isLoaded } from "./loaded.ts";
import { home } from "./places.ts";

/** Stirs the bytes into OpenSSL's generator and fills them anew from it; false when it failed. */
type Reseed = (bytes: Buffer) => boolean;

/* How many values Node draws at once for randomUUID and for randomInt. */
const uuidBatch = 128;
const integerBatch = 1024;
const seedLength = 64;

let reseedOpenssl: Reseed | undefined;

/* xoshiro128**; never all zero. */
const state = new Uint32Array(4);

function next(): number {
  const a = state[0] as number;
  const b = state[1] as number;
  const c = state[2] as number;
  const d = state[3] as number;
  const five = Math.imul(b, 5);
  const result = Math.imul((five << 7) | (five >>> 25), 9) >>> 0;
  state[0] = a ^ d ^ b;
  state[1] = b ^ c ^ a;
  state[2] = c ^ a ^ (b << 9);
  const mixed = d ^ b;
  state[3] = (mixed << 11) | (mixed >>> 21);
  return result;
}

/* As a method, so that it is no constructor and is called what the original is called. */
const replacement = {
  random(): number {
    return ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
  },
};

/** Math.random cannot be reseeded; this one can, also where a task has kept a reference to it. */
function replaceMathRandom(): void {
  for (let i = 0; i < state.length; i++) state[i] = Math.random() * 2 ** 32;
  state[0] = (state[0] as number) | 1;
  Object.defineProperty(Math, "random", {
    value: replacement.random,
    writable: true,
    configurable: true,
  });
}

function loadAddon(): Reseed | undefined {
  try {
    const module: { exports: unknown } = { exports: {} };
    process.dlopen(module, `${home}/adapter/reseed.node`);
    const reseed = module.exports as Reseed;
    return reseed(Buffer.alloc(seedLength)) ? reseed : undefined;
  } catch {
    /* A Node that keeps OpenSSL's names to itself: it runs tasks, but they are not parked. */
    return undefined;
  }
}

/** Before any code of the task; whether this process can be reseeded. */
export function prepareRandom(): boolean {
  replaceMathRandom();
  reseedOpenssl = loadAddon();
  return reseedOpenssl !== undefined;
}

export const canReseed = (): boolean => reseedOpenssl !== undefined;

/** After this, no value can be told from what a copy of this process knows. */
export function reseed(entropy: Uint8Array): boolean {
  const bytes = Buffer.from(entropy);
  if (!reseedOpenssl?.(bytes)) return false;
  for (let i = 0; i < state.length; i++) state[i] = bytes.readUInt32LE(i * 4);
  state[0] = (state[0] as number) | 1;
  bytes.fill(0);
  if (isLoaded("internal/crypto/random")) {
    const { randomInt, randomUUID } = require("node:crypto") as typeof import("node:crypto");
    for (let i = 0; i < uuidBatch; i++) randomUUID();
    for (let i = 0; i < integerBatch; i++) randomInt(2);
  }
  return true;
}
