// The page behind a link to answer: in a browser of the size of a phone, by somebody without an
// account.
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { browserMissing } from "../../sdk/typescript/test/browser.ts";
import { api, client, url } from "./lib/helmr.ts";
import { until } from "./lib/own.ts";
import { onPhone } from "./lib/page.ts";
import type { Page } from "./lib/page.ts";

async function link(type: string, prompt: string, options: { timeout?: string } = {}) {
  const metadata = { prompt, form: { version: 1, type } };
  const token = await client.tokens.create({ metadata, ...options });
  const scope = { type: "token.complete", token } as const;
  const made = await client.auth.createPublicToken({ scope, maxUses: 1 });
  assert.equal(made.url, `${url}/answer/${token.id}#${made.publicAccessToken}`);
  return { token, made, address: made.url as string };
}

const shown = (page: Page) => page.value("document.querySelector('#state').textContent");

async function says(page: Page, text: RegExp): Promise<void> {
  let last = "";
  await until(`the page says ${text}`, async () => text.test((last = await shown(page)))).catch((error) => {
    throw new Error(`${error.message}; it says: ${last}`);
  });
}

/** Ready to be answered, with everything within the width of the screen and nothing complained about. */
async function isReady(page: Page, prompt: string): Promise<void> {
  await until("the form is shown", async () => (await shown(page)) === "");
  assert.equal(await page.value("document.querySelector('#prompt').textContent"), prompt);
  assert.ok(await page.value("document.documentElement.scrollWidth <= innerWidth"), "too wide");
  const small = "[...document.querySelectorAll('button')].filter(b => b.offsetHeight && b.offsetHeight < 44).length";
  assert.equal(await page.value(small), 0, "buttons too small for a finger");
  const unnamed = "[...document.querySelectorAll('textarea')].filter(t => !t.labels.length).length";
  assert.equal(await page.value(unnamed), 0);
}

const data = async (token: { id: string }) => (await api(`/tokens/${token.id}`)).body.data;

suite("a link to answer", { skip: browserMissing }, () => {
  test("approves, and is worth nothing afterwards", () =>
    onPhone(async (page) => {
      const prompt = `Ship it? <img src=x onerror=alert(1)> ${"wide".repeat(60)}`;
      const { token, address } = await link("approval", prompt);
      await page.open(address);
      await isReady(page, prompt);
      await page.tap("#approval button[value=yes]");
      await says(page, /^Thank you/);
      assert.deepEqual(await data(token), { approved: true });
      assert.deepEqual(page.complaints(), []);
      await page.open(address);
      await says(page, /^This link does not work any more/);
      assert.equal(await page.value("document.querySelector('#approval').hidden"), true);
    }));

  test("rejects, sends a message, and sends JSON", () =>
    onPhone(async (page) => {
      const refused = await link("approval", "Ship it?");
      await page.open(refused.address);
      await isReady(page, "Ship it?");
      await page.tap("#approval button[value=no]");
      await says(page, /^Thank you/);
      assert.deepEqual(await data(refused.token), { approved: false });

      const told = await link("message", "What next?");
      await page.open(told.address);
      await isReady(page, "What next?");
      await page.value("document.querySelector('#message textarea').value = 'Grüße\\n2'");
      await page.tap("#message button");
      await says(page, /^Thank you/);
      assert.deepEqual(await data(told.token), { text: "Grüße\n2" });

      const raw = await link("json", "Which?");
      await page.open(raw.address);
      await isReady(page, "Which?");
      await page.value("document.querySelector('#json textarea').value = '{a'");
      await page.tap("#json button");
      assert.match(await page.value("document.querySelector('#fault').textContent"), /^This is not JSON/);
      await page.value("document.querySelector('#json textarea').value = '[1, null]'");
      await page.tap("#json button");
      await says(page, /^Thank you/);
      assert.deepEqual(await data(raw.token), [1, null]);
      assert.deepEqual(page.complaints(), []);
    }));

  test("says when it is too late, and when it is not whole", () =>
    onPhone(async (page) => {
      const { token, made, address } = await link("approval", "Ship it?");
      await page.open(address.split("#")[0] as string);
      await says(page, /^This link is not whole/);
      await page.open(`${address}x`);
      await says(page, /^This link does not work/);
      await page.open(address);
      await isReady(page, "Ship it?");
      await client.tokens.complete(token, { approved: false });
      await page.tap("#approval button[value=yes]");
      await says(page, /^Somebody else has answered/);
      await page.open(address);
      await says(page, /^This has been answered already/);

      const short = await link("approval", "Now?", { timeout: "1s" });
      await until("it is over", async () => (await client.tokens.retrieve(short.token)).status === "expired");
      await page.open(short.address);
      await says(page, /^The time to answer is over/);
      const gone = await link("approval", "Now?");
      await client.tokens.cancel(gone.token);
      await page.open(gone.address);
      await says(page, /^Nobody waits/);
      assert.equal((await api(`/public-access-tokens/${made.id}`, { method: "DELETE" })).status, 204);
      await page.open(address);
      await says(page, /^This link does not work/);
    }));
});
