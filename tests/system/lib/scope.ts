// What a test undoes when it is over: a test's own context, or that of a whole file or suite.
import { after } from "node:test";

export interface Scope {
  after(step: () => unknown): void;
}

/** To be made where tests are declared: an `after` called in a hook belongs to the hook alone. */
export function declaredScope(): Scope {
  const steps: (() => unknown)[] = [];
  after(async () => {
    for (let step = steps.pop(); step; step = steps.pop()) await step();
  });
  return { after: (step) => void steps.push(step) };
}
