// Work as an agent does it: a plan, changes to files, a question before the last step.
import { mkdirSync, writeFileSync } from "node:fs";
import { metadata, task } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

const paint = (code: number, text: string): string => `\u001b[${code}m${text}\u001b[0m`;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const before = `export async function total(order: Order): Promise<number> {
  const rows = await db.query("select * from order_lines where order = ?", order.id);
  return rows.reduce((sum, row) => sum + row.price, 0);
}
`;
const after = `export async function total(order: Order): Promise<Money> {
  const rows = await db.query("select price, currency from order_lines where order = ?", order.id);
  return rows.reduce((sum, row) => sum.plus(row.price, row.currency), Money.zero);
}
`;

export const migrate = task({
  id: "migrate-orders",
  sandbox: small,
  run: async ({ service, note }: { service: string; note?: string }, ctx) => {
    await metadata.set("service", service);
    console.log(`${paint(36, "plan")}  three files of ${paint(1, service)} use floating point for money`);
    mkdirSync("src/orders", { recursive: true });
    writeFileSync("src/orders/total.ts", after);
    writeFileSync("src/orders/total.before.ts", before);
    writeFileSync("MIGRATION.md", `# Money in ${service}\n\n1. Types\n2. Readers\n3. Writers\n`);
    console.log(`${paint(32, "edit")}  src/orders/total.ts`);
    console.log(`${paint(32, "edit")}  MIGRATION.md`);
    console.error(`${paint(33, "warn")}  2 callers are in another repository`);
    for (const test of ["adds prices", "keeps the currency", "refuses to mix currencies"]) {
      await pause(40);
      console.log(`${paint(32, "pass")}  ${test}`);
    }
    const answer = await ctx.wait.human<{ approved: boolean; message?: string }>({
      displayText: note ?? `Merge the new money type into ${service}? The tests pass.`,
      timeout: "7d",
      tags: ["merge"],
    });
    console.log(answer.approved ? paint(32, "merged") : paint(31, "left as it is"));
    if (answer.approved) writeFileSync("merged.txt", `${answer.message ?? "no words"}\n`);
    return { merged: answer.approved };
  },
});

export const flaky = task({
  id: "flaky-tests",
  sandbox: small,
  retry: { maxAttempts: 2, backoff: { minMs: 200, maxMs: 200, factor: 1, jitter: "none" } },
  run: async ({ passesAt = 9 }: { passesAt?: number }, ctx) => {
    console.log(`attempt ${ctx.run.attemptNumber}: 214 tests`);
    await pause(300);
    if (ctx.run.attemptNumber >= passesAt) return { passed: 214 };
    console.error(paint(31, "FAIL  payments/refund.test.ts > refunds in the order's currency"));
    throw new Error("1 of 214 tests failed: payments/refund.test.ts");
  },
});

export const report = task({
  id: "nightly-report",
  sandbox: small,
  run: async ({ ms = 200 }: { ms?: number }, _ctx) => {
    for (let at = 0; at < 5; at++) {
      console.log(`table ${at + 1} of 5`);
      await pause(ms / 5);
    }
    return { tables: 5 };
  },
});

/** Asks what it is told to ask. */
export const asks = task({
  id: "asks",
  sandbox: small,
  run: async (
    event: { form: "approval" | "message" | "json"; text: string; schema?: object; timeout?: string },
    ctx,
  ) => ({
    answer: await ctx.wait.human<unknown>({
      displayText: event.text,
      form: event.form,
      ...(event.timeout && { timeout: event.timeout }),
      ...(event.schema && { metadata: { schema: event.schema } }),
    }),
  }),
});
