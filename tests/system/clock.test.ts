// The clock jumps by days while runs are parked: for server and worker by a library between them and
// the system. Sandboxes that have the clock of the worker see it jump. Others have that of the host,
// which nobody can move here; for what they see of it a border lies between park and resume.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { before, suite, test } from "node:test";
import { engine } from "./lib/engine.ts";
import { projects } from "./lib/helmr.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { parked, restart, start, succeeded, waiting } from "./lib/waiting.ts";

const secondMs = 1000;
const hourMs = 3600 * secondMs;

const authority = `[ca]
default_ca = own
[own]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = DNS:localhost
`;

interface Identity {
  readonly key: string;
  readonly cert: string;
}

/* A certificate that signs for itself, with the instants its time begins and ends at. */
function certified(folder: string, name: string, fromMs: number, toMs: number): Identity {
  const instant = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+|[-:T]/g, "");
  const openssl = (...args: string[]): void => {
    execFileSync("openssl", args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  };
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const own = ["-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`];
  writeFileSync(`${folder}/authority`, authority);
  writeFileSync(`${folder}/index`, "");
  openssl("req", ...key, ...own);
  openssl(
    ...["ca", "-config", "authority", "-batch", "-notext", "-selfsign", "-rand_serial"],
    ...["-keyfile", `${name}.key`, "-in", `${name}.csr`, "-out", `${name}.crt`],
    ...["-startdate", instant(fromMs), "-enddate", instant(toMs)],
  );
  const read = (kind: string): string => readFileSync(`${folder}/${name}.${kind}`, "utf8");
  return { key: read("key"), cert: read("crt") };
}

suite("a clock that jumps", () => {
  const scope = declaredScope();
  const folder = mkdtempSync(`${tmpdir()}/helmr-clock-`);
  const offset = `${folder}/offset`;
  let own: Own;
  let deployment = "";

  before(async () => {
    scope.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(offset, "-2d");
    own = await startOwn(scope, {
      env: {
        HELMR_WAIT_HOT_TIME: "0s",
        LD_PRELOAD: "/usr/$LIB/faketime/libfaketimeMT.so.1",
        FAKETIME_TIMESTAMP_FILE: offset,
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
      },
    });
    deployment = await own.deployed(`${projects}waits`);
  });

  /* A run that looked at two certificates and is parked, and the instant that parts them. */
  async function looked(): Promise<{ id: string; waitId: string; borderMs: number }> {
    const id = await start(own, deployment, "trusts", {});
    const first = await waiting(own, id);
    const now = Date.now();
    // Between two days ago and now, or after time for an answer to a program that is there.
    const awayMs = engine.hasOwnClock ? -24 * hourMs : 20 * secondMs;
    const borderMs = now - (now % secondMs) + awayMs;
    const certificates = {
      ends: certified(folder, "ends", now - 72 * hourMs, borderMs),
      begins: certified(folder, "begins", borderMs, now + hourMs),
    };
    await own.client.tokens.complete(first.tokenId as string, certificates);
    return { id, waitId: (await parked(own, id, first.id)).id, borderMs };
  }

  test("two days pass while runs are parked", async () => {
    const waits = await start(own, deployment, "approve", { name: "Ada" });
    const naps = await start(own, deployment, "naps", { for: "2d" });
    const wait = await parked(own, waits);
    await parked(own, naps);
    const trusts = await looked();
    assert.ok(Date.now() - wait.createdAt.getTime() > 47 * hourMs, "the clock is behind");
    writeFileSync(offset, "+0");
    await restart(own);

    const answeredAt = Date.now();
    await own.client.tokens.complete(wait.id, { approved: true });
    const { output } = await succeeded(own, waits);
    assert.ok(output.now >= answeredAt && output.now <= Date.now(), `${output.now}`);
    assert.equal(output.content, "Ada before and after");
    await succeeded(own, naps);

    await until("the border", () => Date.now() > trusts.borderMs + secondMs);
    await own.client.tokens.complete(trusts.waitId);
    assert.deepEqual((await succeeded(own, trusts.id)).output, {
      before: { ends: "accepted", begins: "CERT_NOT_YET_VALID" },
      after: { ends: "CERT_HAS_EXPIRED", begins: "accepted" },
    });
  });

  test("nothing is left", () => own.stopClean());
});
