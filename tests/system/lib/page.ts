// A page of the server in a real browser, as somebody with a phone has it: opened, looked at, tapped.
import { openPhone } from "./console.ts";

export interface Page {
  /** What an expression in the page comes to. */
  value(expression: string): Promise<any>;
  /** Taps what the selector names. */
  tap(selector: string): Promise<void>;
  open(url: string): Promise<void>;
  /** What the page complained about: errors of scripts, and what its policy refused. */
  complaints(): readonly string[];
}

/** A phone's page for as long as the work takes. */
export async function onPhone<T>(work: (page: Page) => Promise<T>): Promise<T> {
  const { page, faults, end } = await openPhone();
  try {
    return await work({
      value: (expression) => page.evaluate(expression),
      tap: (selector) => page.locator(selector).tap(),
      // An address that differs behind the # only would be no new page.
      open: async (url) => {
        await page.goto("about:blank");
        await page.goto(url);
      },
      complaints: () => faults,
    });
  } finally {
    await end();
  }
}
