// The Helmr that `run` started, shared by the tests that need no other.
import assert from "node:assert/strict";
import { Installation } from "./installation.ts";

export type { Answer, Deployed, EventRecord, Request, Result } from "./installation.ts";

function setting(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: start the tests with tests/system/run`);
  return value;
}

export const binary = setting("HELMR");
export const dataDir = setting("SYSTEM_DATA_DIR");
export const url = setting("HELMR_API_URL");
export const apiKey = setting("SYSTEM_API_KEY");
export const projects = new URL("../projects/", import.meta.url).pathname;
export const examples = new URL("../../../examples/", import.meta.url).pathname;

export const shared = new Installation({ binary, dataDir, url, apiKey });

export const { client, helmr, printed, api, runEvents, deploy, deployed, run, said } = shared;
