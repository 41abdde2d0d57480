// What twenty secrets add to the start of a run: the same start with and without them, in turns.
import { note } from "../host.ts";
import { figure, median } from "../report.ts";
import { type Stack, startUp, url } from "../stack.ts";
import { type Phases, startOnce } from "./run_start.ts";

const rounds = 20;
const count = 20;

async function store(stack: Stack, name: string): Promise<void> {
  const answer = await fetch(`${url(stack)}/api/secrets/${name}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${stack.key}`, "content-type": "application/json" },
    body: JSON.stringify({ value: `${name} `.repeat(8) }),
  });
  if (!answer.ok) throw new Error(`PUT /api/secrets: ${await answer.text()}`);
}

export async function secretStart(stack: Stack): Promise<void> {
  await startUp(stack);
  for (let i = 0; i < count; i++) await store(stack, `BENCH_${i}`);
  const phases: Phases = new Map();
  const plain: number[] = [];
  const secret: number[] = [];
  // After each start the next sandbox is made ahead; both kinds are to begin in one that is ready.
  const settle = () => new Promise((resolve) => setTimeout(resolve, 1500));
  for (let i = 0; i <= rounds; i++) {
    await settle();
    plain.push(await startOnce(stack, new Map()));
    await settle();
    secret.push(await startOnce(stack, phases, "now-with-secrets"));
  }
  const without = median(plain.slice(1));
  figure("secret_start", median(secret.slice(1)) - without, "ms");
  note(`secret_start: without secrets a start takes ${without} ms`);
  note(`secret_start: the step takes ${median(phases.get("secrets")?.slice(1) ?? [])} ms`);
}
