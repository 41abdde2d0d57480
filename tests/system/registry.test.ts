// Images from and to Debian's docker-registry: open, with a password, with TLS, as a mirror.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, suite, test } from "node:test";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { buildLog, imageSteps } from "./lib/installation.ts";
import { project } from "./lib/project.ts";
import { skopeoInspect, startRegistry, withoutRegistry } from "./lib/registry.ts";
import type { Registry, RegistryOptions } from "./lib/registry.ts";
import { declaredScope } from "./lib/scope.ts";
import { baseImages, emptyStore, makeImage, putImage, putManifest, sha256 } from "./lib/store.ts";

const skip = withoutRegistry() ?? false;
const debian = "debian:bookworm-slim";
const node = "node:24-bookworm-slim";
const full = (name: string): string => `docker.io/library/${name}`;

const kinds: Record<string, RegistryOptions> = {
  "an open registry": {},
  "a registry with a password": { user: "ada", password: "correct horse" },
  "a registry with TLS": { tls: true },
  "a registry with both": { user: "ada", password: "correct horse", tls: true },
};

for (const [kind, options] of Object.entries(kinds))
  suite(kind, { skip }, () => {
  const scope = declaredScope();
    let registry: Registry;
    let digest = "";
    const name = `library/${debian}`;

    before(async () => {
      registry = await startRegistry(scope, options);
      digest = (await baseImages.list())[full(debian)] as string;
    });

    test("takes a pushed image, and skopeo reads it there", async () => {
      await baseImages.with(registry.env).printed("push", debian, `${registry.host}/${name}`);
      const seen = skopeoInspect(registry, name);
      assert.equal(seen.Digest, digest);
      assert.deepEqual(
        seen.Layers,
        baseImages.document(digest).layers.map((layer: any) => layer.digest),
      );
    });

    test("gives it back by tag and by digest", async (t) => {
      for (const reference of [name, `library/debian@${digest}`]) {
        const store = emptyStore(t, registry.env);
        const printed = await store.printed("pull", `${registry.host}/${reference}`);
        assert.ok(printed.includes(digest), printed);
        assert.deepEqual(Object.values(await store.list()), [digest]);
        await store.isClean();
      }
    });

    test("is not asked again for what is there", async (t) => {
      const store = emptyStore(t, registry.env);
      await store.printed("pull", `${registry.host}/${name}`);
      const layers = () =>
        registry.requests().filter((line) => /^GET .*\/blobs\/.* 200$/.test(line)).length;
      const once = layers();
      assert.ok(once > 0);
      await store.printed("pull", `${registry.host}/${name}`);
      assert.equal(layers(), once);
    });

    if (options.user)
      test("refuses without the password, and no message has it", async (t) => {
        const nobody = process.env.HELMR_REGISTRY_AUTH_FILE as string;
        const store = emptyStore(t, { ...registry.env, HELMR_REGISTRY_AUTH_FILE: nobody });
        const message = await store.refused("pull", `${registry.host}/${name}`);
        assert.match(message, /401|unauthori[sz]ed|credentials|log ?in/i);
        assert.ok(message.includes(registry.host), message);
        assert.ok(!message.includes("correct horse"));
        assert.deepEqual(await store.list(), {});
      });

    if (options.tls)
      test("is not trusted without its authority", async (t) => {
        const { HELMR_REGISTRY_CA_FILE: _, ...env } = registry.env;
        const store = emptyStore(t, env);
        const message = await store.refused("pull", `${registry.host}/${name}`);
        assert.match(message, /certificate|SSL|TLS/i);
        assert.deepEqual(await store.list(), {});
      });
  });

suite("images of other makers", { skip }, () => {
  const scope = declaredScope();
  let registry: Registry;
  before(async () => {
    registry = await startRegistry(scope);
  });

  test("an image that skopeo gave Docker's media types has the same layers", async (t) => {
    const made = makeImage([100_000, 200_000]);
    await putImage(registry.origin, "oci/image:1", made);
    const [from, to] = ["oci", "docker"].map((kind) => `docker://${registry.host}/${kind}/image:1`);
    const flags = ["--quiet", "--src-tls-verify=false", "--dest-tls-verify=false"];
    execFileSync("skopeo", ["copy", ...flags, "--format", "v2s2", from as string, to as string]);
    const store = emptyStore(t);
    for (const kind of ["oci", "docker"])
      await store.printed("pull", `${registry.host}/${kind}/image:1`);
    const { [`${registry.host}/oci/image:1`]: oci, [`${registry.host}/docker/image:1`]: docker } =
      await store.list();
    assert.equal(oci, made.digest);
    assert.notEqual(docker, oci);
    assert.match(store.document(docker as string).mediaType, /vnd\.docker/);
    assert.deepEqual(store.diffIds(docker as string), store.diffIds(oci as string));
    await store.isClean();
  });

  test("of an index the image for this machine is taken", async (t) => {
    const [mine, other] = [makeImage([1000]), makeImage([2000])];
    await putImage(registry.origin, "list/all:mine", mine);
    await putImage(registry.origin, "list/all:other", other);
    const entry = ({ manifest, digest }: typeof mine, architecture: string) => ({
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      digest,
      size: manifest.length,
      platform: { os: "linux", architecture },
    });
    const here = process.arch === "arm64" ? "arm64" : "amd64";
    const there = here === "arm64" ? "amd64" : "arm64";
    const index = JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.index.v1+json",
      manifests: [entry(other, there), entry(mine, here)],
    });
    await putManifest(registry.origin, "list/all:1", index);
    const nobody = index.replaceAll(`"${here}"`, '"s390x"');
    await putManifest(registry.origin, "list/all:nobody", nobody);
    for (const reference of ["list/all:1", `list/all@${sha256(index)}`]) {
      const store = emptyStore(t);
      await store.printed("pull", `${registry.host}/${reference}`);
      assert.deepEqual(Object.values(await store.list()), [mine.digest]);
    }
    const message = await emptyStore(t).refused("pull", `${registry.host}/list/all:nobody`);
    assert.match(message, new RegExp(here));
  });

  test("an image that is not there is told apart from a registry that is not there", async (t) => {
    const store = emptyStore(t);
    assert.match(await store.refused("pull", `${registry.host}/no/such:1`), /not found|no .*such|unknown|404/i);
    assert.match(await store.refused("pull", "127.0.0.1:9/no/such:1"), /127\.0\.0\.1:9/);
    await store.isClean();
  });
});

suite("the local store", { skip }, () => {
  const scope = declaredScope();
  const folder = mkdtempSync(`${tmpdir()}/helmr-export-`);
  after(() => rmSync(folder, { recursive: true }));
  let registry: Registry;
  before(async () => {
    registry = await startRegistry(scope);
  });

  test("exports an archive that skopeo reads, the same bytes each time", async () => {
    const digest = (await baseImages.list())[full(debian)];
    for (const file of ["one.tar", "two.tar"])
      await baseImages.printed("export", debian, `${folder}/${file}`);
    execFileSync("cmp", [`${folder}/one.tar`, `${folder}/two.tar`]);
    const seen = execFileSync("skopeo", ["inspect", `oci-archive:${folder}/one.tar`]);
    assert.equal(JSON.parse(seen.toString()).Digest, digest);
  });

  test("shows an image, removes its name, and prunes what nobody names", async (t) => {
    const made = makeImage([100_000, 100_000]);
    await putImage(registry.origin, "a/b:1", made);
    const store = emptyStore(t);
    const reference = `${registry.host}/a/b:1`;
    await store.printed("pull", reference);
    assert.ok((await store.printed("show", reference)).includes(made.digest));
    assert.equal(store.blobs().length, made.blobs.size + 1);
    await store.refused("rm", "a/nothing:1", "--yes");
    await store.printed("rm", reference, "--yes");
    assert.deepEqual(await store.list(), {});
    await store.printed("prune", "--yes");
    assert.deepEqual(store.blobs(), []);
    await store.isClean();
  });

  test("verify finds one changed byte and names the blob", async (t) => {
    const made = makeImage([100_000]);
    await putImage(registry.origin, "c/d:1", made);
    const store = emptyStore(t);
    await store.printed("pull", `${registry.host}/c/d:1`);
    await store.isClean();
    const layer = JSON.parse(made.manifest).layers[0].digest as string;
    const path = `${store.dataDir}/worker/oci/blobs/${layer.replace(":", "/")}`;
    execFileSync("chmod", ["u+w", path]);
    execFileSync("dd", [`of=${path}`, "bs=1", "seek=5000", "conv=notrunc", "status=none"], {
      input: "changed",
    });
    const { code, stdout, stderr } = await store.image("verify");
    assert.equal(code, 1);
    assert.ok((stdout + stderr).includes(layer.slice("sha256:".length)), stdout + stderr);
  });
});

/* Deployments of a Helmr that has no image at all and may ask one registry. */
suite("a deployment", { skip }, () => {
  const scope = declaredScope();
  let registry: Registry;
  let own: Own;
  let digest = "";
  const from = (reference: string) => ({ "tasks/a.ts": { from: reference } });

  before(async () => {
    registry = await startRegistry(scope, { user: "ada", password: "correct horse", tls: true });
    digest = (await baseImages.list())[full(node)] as string;
    await baseImages.with(registry.env).printed("push", node, `${registry.host}/library/${node}`);
    const env = { ...registry.env, HELMR_REGISTRY_MIRRORS: `docker.io=${registry.origin}` };
    own = await startOwn(scope, { env, workers: [{ isBare: true }] });
  });

  test("takes a short name from the mirror", async (t) => {
    const { id } = await own.deployedWell(project(t, {}));
    assert.equal(await own.output(id, "a"), "fine");
    const { stdout } = await own.image(["list"]);
    assert.ok(stdout.includes(`${full(node)}\t${digest}\t`), stdout);
    assert.ok(
      registry.requests().some((line) => /^GET \/v2\/library\/node\/manifests\/.* 200$/.test(line)),
    );
  });

  test("takes an image from the registry it names, by tag and by digest", async (t) => {
    for (const reference of [`library/${node}`, `library/node@${digest}`]) {
      const made = await own.deployedWell(project(t, from(`${registry.host}/${reference}`)));
      assert.match(buildLog(made), new RegExp(`^\\S+ is ${digest}$`, "m"));
      assert.equal(await own.output(made.id, "a"), "fine");
    }
  });

  test("copies an image of a few files whole into another", async (t) => {
    const open = await startRegistry(t);
    await putImage(open.origin, "tiny/files:1", makeImage([1000, 2000]));
    const files = {
      "tasks/a.ts": {
        head: 'import { readdirSync } from "node:fs";',
        steps: `.copy("/srv/tiny", image("tiny").from("${open.host}/tiny/files:1"))`,
        returns: 'readdirSync("/srv/tiny").sort()',
      },
    };
    const { id } = await own.deployedWell(project(t, files));
    assert.deepEqual(await own.output(id, "a"), ["file-0", "file-1"]);
  });

  test("asks for the image again when told to use no cache", async (t) => {
    const asked = () => registry.requests().filter((line) => line.includes("/manifests/")).length;
    const before = asked();
    const made = await own.deployedWell(
      project(t, from(`${registry.host}/library/${node}`)),
      "--no-cache",
    );
    assert.ok(imageSteps(made).length > 0);
    assert.ok(asked() > before);
  });

  test("from an image that is not there fails and names it", async (t) => {
    const { code, record } = await own.deploy(project(t, from(`${registry.host}/no/such:1`)));
    assert.equal(code, 1);
    assert.equal(record.error.failure_kind, "image_build_failed");
    assert.ok(record.error.message.includes(`${registry.host}/no/such:1`), record.error.message);
  });

  test("leaves a store that verifies, and nothing else", () => own.stopClean());
});
