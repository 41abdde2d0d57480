import assert from "node:assert/strict";
import { test } from "node:test";
import { cache, image, queue, sandbox, source, validateSecretName } from "@helmr/sdk";

interface Refused {
  what: string;
  call: () => unknown;
  says: RegExp;
}

const base = image("i").from("node:24");
const any = (value: unknown): never => value as never;

const refusals: Refused[] = [
  {
    what: "an image id with a slash",
    call: () => image("a/b"),
    says: /^image id must be 1 to 128/,
  },
  { what: "an image id of 129 characters", call: () => image("a".repeat(129)), says: /image id/ },
  {
    what: "a step before from",
    call: () => image("i").workdir("/a"),
    says: /image i: workdir must come after from/,
  },
  {
    what: "a second from",
    call: () => base.from("node:24"),
    says: /image i: from must be the first step/,
  },
  {
    what: "an empty reference",
    call: () => image("i").from(""),
    says: /from ref must not be empty/,
  },
  {
    what: "a reference with a space",
    call: () => image("i").from("a b"),
    says: /from ref must be an image reference/,
  },
  {
    what: "a command that is a string",
    call: () => base.run(any("ls")),
    says: /run argv must be an array/,
  },
  { what: "an empty command", call: () => base.run([]), says: /run argv must have 1 to 1024/ },
  {
    what: "an argument that is a number",
    call: () => base.run(["a", any(1)]),
    says: /run argv\[1\] must be a string/,
  },
  {
    what: "an empty argument",
    call: () => base.run(["a", ""]),
    says: /run argv\[1\] must not be empty/,
  },
  {
    what: "NUL in an argument",
    call: () => base.run(["a\0"]),
    says: /run argv\[0\] must not contain NUL/,
  },
  {
    what: "an unknown run option",
    call: () => base.run(["a"], any({ shell: true })),
    says: /run options\.shell is unknown/,
  },
  {
    what: "a cache that is no cache",
    call: () => base.run(["a"], { cache: [{ mountPath: "/c", cache: any({ id: "c" }) }] }),
    says: /run cache\[0\]\.cache must be made by cache\(\)/,
  },
  {
    what: "a relative cache mount",
    call: () => base.run(["a"], { cache: [{ mountPath: "c", cache: cache("c") }] }),
    says: /mountPath must be absolute/,
  },
  {
    what: "a cache mount over /proc",
    call: () => base.run(["a"], { cache: [{ mountPath: "/proc/c", cache: cache("c") }] }),
    says: /\/proc is reserved/,
  },
  {
    what: "a build secret with a bad name",
    call: () => base.run(["a"], { secrets: [{ mountPath: "/s", secret: "a b" }] }),
    says: /run secrets\[0\]\.secret/,
  },
  {
    what: "two secrets on one path",
    call: () =>
      base.run(["a"], {
        secrets: [
          { mountPath: "/s", secret: "S" },
          { mountPath: "//s/.", secret: "T" },
        ],
      }),
    says: /run secrets must not mount \/s twice/,
  },
  {
    what: "an argument of more bytes than characters",
    call: () => base.run(["a", "é".repeat(40_000)]),
    says: /run argv\[1\] is over 65536 bytes/,
  },
  {
    what: "cache and secrets in one step",
    call: () =>
      base.run(["a"], {
        cache: [{ mountPath: "/c", cache: cache("c") }],
        secrets: [{ mountPath: "/s", secret: "S" }],
      }),
    says: /must not use cache and secrets in one step/,
  },
  { what: "a copy of a path", call: () => base.copy("/a", any("a")), says: /copy src must be/ },
  {
    what: "a copy to nowhere",
    call: () => base.copy("", source.file("a")),
    says: /copy dest must not be empty/,
  },
  {
    what: "a copyFrom of no image",
    call: () => base.copyFrom("/a", any({}), "/b"),
    says: /copyFrom image must be an image/,
  },
  {
    what: "a reserved workdir",
    call: () => base.workdir("/opt/helmr/x"),
    says: /\/opt\/helmr is reserved/,
  },
  {
    what: "a workdir that climbs",
    call: () => base.workdir("/a/../b"),
    says: /workdir path must not contain "\.\."/,
  },
  { what: "an LD_ variable", call: () => base.env("LD_PRELOAD", "x"), says: /env key/ },
  { what: "a HELMR_ variable", call: () => base.env("HELMR_X", "x"), says: /env key/ },
  { what: "a variable with a dash", call: () => base.env("A-B", "x"), says: /env key/ },
  {
    what: "a value that is a number",
    call: () => base.env("A", any(1)),
    says: /env A must be a string/,
  },
  {
    what: "a user and a gid",
    call: () => base.user("node:1"),
    says: /user name must be a user, a uid/,
  },
  { what: "a cache id with a space", call: () => cache("a b"), says: /cache id/ },
  {
    what: "an absolute source",
    call: () => source.file("/etc/passwd"),
    says: /must be relative to the project/,
  },
  {
    what: "a source outside the project",
    call: () => source.file("../a"),
    says: /must not contain "\.\."/,
  },
  {
    what: "a source that is never uploaded",
    call: () => source.directory("a/node_modules"),
    says: /must not use node_modules/,
  },
  {
    what: "an .env file as a source",
    call: () => source.file(".env.local"),
    says: /must not use \.env\.local/,
  },
  { what: "the project's root as a file", call: () => source.file("./"), says: /must name a file/ },
  {
    what: "an unknown source option",
    call: () => source.directory("a", any({ include: [] })),
    says: /include is unknown/,
  },
  {
    what: "an image without steps",
    call: () => sandbox("s").image(image("i")),
    says: /image i must have a from step/,
  },
  {
    what: "an image that is none",
    call: () => sandbox("s").image(any({})),
    says: /sandbox image must be made by image\(\)/,
  },
  {
    what: "a relative mount",
    call: () => sandbox("s").workspace("app"),
    says: /workspace mountPath must be absolute/,
  },
  { what: "the root as mount", call: () => sandbox("s").workspace("/./"), says: /must not be \/$/ },
  {
    what: "half a CPU",
    call: () => sandbox("s").resources({ cpu: 0.5 }),
    says: /resources\.cpu must be a whole number/,
  },
  { what: "no CPU", call: () => sandbox("s").resources({ cpu: 0 }), says: /resources\.cpu/ },
  {
    what: "100 MiB of memory",
    call: () => sandbox("s").resources({ memory: "100Mi" }),
    says: /resources\.memory in MiB must be a whole number from 128/,
  },
  {
    what: "1500 KiB of disk",
    call: () => sandbox("s").resources({ disk: "1500Ki" }),
    says: /resources\.disk must be whole MiB/,
  },
  {
    what: "gigabytes",
    call: () => sandbox("s").resources({ memory: "4GB" }),
    says: /resources\.memory must be a size such as/,
  },
  {
    what: "an unknown resource",
    call: () => sandbox("s").resources(any({ gpu: 1 })),
    says: /resources\.gpu is unknown/,
  },
  {
    what: "an unknown network key",
    call: () => sandbox("s").network(any({ egress: 1 })),
    says: /network\.egress is unknown/,
  },
  {
    what: "an address that is no prefix",
    call: () => sandbox("s").network({ internet: { deny: ["10.0.0.1"] } }),
    says: /network\.internet\.deny\[0\] must be an address prefix/,
  },
  {
    what: "a prefix over its bits",
    call: () => sandbox("s").network({ internet: { deny: ["10.0.0.0/33"] } }),
    says: /deny\[0\]/,
  },
  {
    what: "an address with a wrong part",
    call: () => sandbox("s").network({ internet: { deny: ["10.0.0.256/8"] } }),
    says: /deny\[0\]/,
  },
  {
    what: "a port over 65535",
    call: () => sandbox("s").network({ ports: [65_536] }),
    says: /network\.ports\[0\]/,
  },
  {
    what: "more ports than a sandbox may list",
    call: () => sandbox("s").network({ ports: Array.from({ length: 65 }, (_, i) => i + 1) }),
    says: /at most 64 ports/,
  },
  {
    what: "a queue limit of zero",
    call: () => queue({ name: "q", concurrencyLimit: 0 }),
    says: /queue\.concurrencyLimit/,
  },
  {
    what: "a queue name with a space",
    call: () => queue({ name: "q q" }),
    says: /queue\.name must be 1 to 256/,
  },
  {
    what: "an unknown queue key",
    call: () => queue(any({ name: "q", limit: 1 })),
    says: /queue\.limit is unknown/,
  },
  {
    what: "an empty secret name",
    call: () => validateSecretName(""),
    says: /secret name must not be empty/,
  },
  {
    what: "a device as secret name",
    call: () => validateSecretName("com1"),
    says: /not be a device name/,
  },
  {
    what: "a secret name of 129 characters",
    call: () => validateSecretName("A".repeat(129)),
    says: /secret name/,
  },
];

for (const { what, call, says } of refusals)
  test(`${what} is refused`, () => {
    assert.throws(call, (error: unknown) => error instanceof TypeError && says.test(error.message));
  });

for (const reserved of ["/dev", "/proc", "/sys", "/run", "/tmp", "/opt/helmr"])
  for (const path of [reserved, `${reserved}/below`, `/./${reserved.slice(1)}//x`])
    test(`the mount ${path} is refused and ${reserved} is named`, () => {
      assert.throws(() => sandbox("s").workspace(path), new RegExp(`${reserved} is reserved`));
    });

const accepted: [string, () => unknown][] = [
  [
    "a mount beside a reserved one",
    () => sandbox("s").workspace("/development").workspace("/srv/app").workspace("/opt/helmrs"),
  ],
  [
    "every size",
    () =>
      sandbox("s")
        .resources({ cpu: 1, memory: "131072ki", disk: 1 })
        .resources({ memory: "4GIB" })
        .resources({ disk: "512" }),
  ],
  [
    "IPv6 prefixes",
    () =>
      sandbox("s").network({
        internet: { deny: ["::/0", "fd00::/8", "2001:db8:0:0:0:0:0:1/128"] },
      }),
  ],
  ["every form of user", () => base.user("node").user("1000").user("node:node").user("0:0")],
  [
    "an unlimited queue",
    () => [queue({ name: "team/q.1" }), queue({ name: "q", concurrencyLimit: null })],
  ],
  ["a secret name with dots", () => validateSecretName("api.token-1")],
  ["an empty environment value", () => base.env("A", "")],
];

for (const [what, call] of accepted)
  test(`${what} is accepted`, () => {
    assert.doesNotThrow(call);
  });

const definition = (value: object, name: string): Record<string, unknown> =>
  (value as Record<symbol, Record<string, unknown>>)[Symbol.for(`helmr.sdk.${name}`)] as Record<
    string,
    unknown
  >;

test("a builder is never changed by the next step", () => {
  const first = base.workdir("/a");
  first.run(["x"]);
  assert.equal((definition(first, "ImageBuilder").steps as unknown[]).length, 2);
  const small = sandbox("s").image(base);
  small.resources({ cpu: 8 });
  assert.equal(definition(small, "SandboxBuilder").cpu, 2);
  assert.ok(Object.isFrozen(first) && Object.isFrozen(small));
});

test("a mount path is normalised and has a default", () => {
  assert.equal(
    definition(sandbox("s").workspace("/srv//./app/"), "SandboxBuilder").mountPath,
    "/srv/app",
  );
  assert.equal(definition(sandbox("s").workspace(), "SandboxBuilder").mountPath, "/workspace");
});

test("brands are not enumerable", () => {
  for (const [value, name] of [
    [base, "ImageBuilder"],
    [sandbox("s"), "SandboxBuilder"],
    [cache("c"), "CacheRef"],
    [source.file("a"), "SourceFileRef"],
    [source.directory("a"), "SourceDirRef"],
    [queue({ name: "q" }), "QueueDefinition"],
  ] as const) {
    assert.ok(definition(value, name), name);
    assert.equal(
      Object.getOwnPropertyDescriptor(value, Symbol.for(`helmr.sdk.${name}`))?.enumerable,
      false,
    );
  }
});
