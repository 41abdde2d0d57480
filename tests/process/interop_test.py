#!/usr/bin/env python3
"""Layers against the tools others use: interop_test.py LAYER_PROGRAM HELMR

What we make, skopeo, umoci, buildah and podman unpack to the tree it was made from; what they
make, we unpack to the tree they show. TAP on stdout. Needs root, for owners and overlay mounts.
"""
import hashlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

from tap import Skip, run_tests, test

LAYER, HELMR = [os.path.abspath(path) for path in sys.argv[1:3]]
# Its name becomes part of an image's, where not every character may stand everywhere.
WORK = pathlib.Path(tempfile.gettempdir()) / f"helmr-interop-{os.urandom(6).hex()}"
WORK.mkdir(mode=0o700)
CAPABILITY = bytes([1, 0, 0, 2, 0, 0x20]) + bytes(14)  # cap_net_raw, permitted and effective


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def run(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 0, f"{command}: exit {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout.strip()


def shell(script, cwd):
    run("sh", "-ceu", script, cwd=cwd)


def layer(*words):
    return json.loads(run(LAYER, *words))


def storage(program, *words):
    """buildah and podman with a store of their own, and without a driver that mounts."""
    home = WORK / "containers"
    return run(program, "--root", home / "root", "--runroot", home / "run", "--storage-driver",
               "vfs", *words)


def content_of(path, facts):
    if stat.S_ISLNK(facts.st_mode):
        return os.fsdecode(os.readlink(path))
    if not stat.S_ISREG(facts.st_mode):
        return None
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def attributes_of(path):
    names = [name for name in os.listxattr(path, follow_symlinks=False)
             if name.startswith("user.") or name == "security.capability"]
    return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in names}


def tree_of(root):
    """Everything about a tree that an image keeps, by path."""
    root, found, links = os.fsencode(root), {}, {}
    for folder, folders, files in os.walk(root):
        for path in [folder] + [os.path.join(folder, name) for name in files] + \
                [os.path.join(folder, name) for name in folders
                 if os.path.islink(os.path.join(folder, name))]:
            facts, name = os.lstat(path), os.fsdecode(os.path.relpath(path, root))
            kind = stat.S_IFMT(facts.st_mode)
            if not stat.S_ISDIR(facts.st_mode):
                links.setdefault(facts.st_ino, []).append(name)
            found[name] = {
                "kind": oct(kind), "mode": oct(stat.S_IMODE(facts.st_mode)),
                "owner": [facts.st_uid, facts.st_gid], "content": content_of(path, facts),
                "size": 0 if stat.S_ISDIR(facts.st_mode) else facts.st_size,
                "attributes": attributes_of(path),
                "modified": int(facts.st_mtime),
                "links": links.get(facts.st_ino) if kind != stat.S_IFDIR else None,
            }
    for entry in found.values():
        entry["links"] = sorted(entry["links"]) if entry["links"] else None
    return found


def same(ours, theirs):
    differences = []
    # A layer need not list the root, and then its mode and time are each tool's own.
    for name in sorted((set(ours) | set(theirs)) - {"."}):
        a, b = ours.get(name), theirs.get(name)
        if a is None or b is None:
            differences.append(f"{name!r} is only in {'theirs' if a is None else 'ours'}")
            continue
        differences += [f"{name!r}: {key} is {a[key]} and {b[key]}" for key in a if a[key] != b[key]]
    assert not differences, "\n".join(differences[:20])
    assert len(ours) > 3


def in_namespace(mount_options, script):
    """Runs a shell script at a fresh overlay, in a mount namespace of its own."""
    at = WORK / "merged"
    at.mkdir(exist_ok=True)
    return run("unshare", "-m", "--propagation", "private", "sh", "-ceu",
               f"mount -t overlay overlay -o '{mount_options}' '{at}'; cd '{at}'; {script}")


def merged_tree(folders):
    """What a stack of unpacked layers looks like to the programs in a sandbox."""
    empty = WORK / "empty"
    empty.mkdir(exist_ok=True)
    lowers = ":".join([*reversed(folders), str(empty)])
    text = in_namespace(f"lowerdir={lowers}", f"exec '{__file__}' '{LAYER}' '{HELMR}' --tree .")
    return json.loads(text)


ROOT = r"""
mkdir -p usr/bin usr/lib/deep etc/conf.d var/cache/a var/cache/b tmp home/user opt/old/sub
chmod 1777 tmp; chown 1000:1000 home/user; chmod 0750 home/user
printf program > usr/bin/sudo; chmod 4755 usr/bin/sudo
printf group > usr/bin/wall; chmod 2755 usr/bin/wall
printf net > usr/bin/ping; chmod 0755 usr/bin/ping
printf data > usr/lib/lib.so.1.2; ln -s lib.so.1.2 usr/lib/lib.so
ln usr/lib/lib.so.1.2 usr/lib/deep/again.so; ln usr/bin/sudo opt/sudo
ln -s /usr/lib lib; ln -s ../nowhere etc/dangling
printf a > var/cache/a/one; printf b > var/cache/b/two; printf c > opt/old/sub/three
printf conf > etc/conf.d/main; printf gone > etc/removed; printf was > etc/changed
printf owned > home/user/file; chown 3000000000:2999999999 home/user/file
long=$(printf '%0120d' 0); mkdir -p opt/$long/$long; printf long > opt/$long/$long/$long
ln -s $long$long opt/long-link
printf name > "opt/$(printf 'na\303\257ve \342\202\254')"
truncate -s 3M opt/sparse; printf end >> opt/sparse; truncate -s 8M opt/sparse
mkfifo -m 0620 var/fifo
find . -exec touch -h -d @1600000000 {} +
"""

CHANGES = r"""
rm etc/removed; rm -r opt/old; rm -r var/cache/a; mkdir var/cache/a; printf new > var/cache/a/new
printf is > etc/changed; chmod 0711 home; rm lib; mkdir lib; printf real > lib/file
rm -r var/cache/b; printf file > var/cache/b
mkdir -p fresh/nested; printf f > fresh/nested/f; ln fresh/nested/f fresh/g
ln usr/lib/lib.so.1.2 usr/lib/third.so
printf mine > tmp/mine; chmod 0600 tmp/mine; chown 1000 tmp/mine
find fresh lib var etc tmp -exec touch -h -d @1700000000 {} +
"""

MORE = r"""
rm -r fresh/nested; rm usr/lib/deep/again.so; mkdir opt/old; printf back > opt/old/back
rm -r lib; ln -s usr/lib lib; printf again > etc/removed
find opt/old etc -exec touch -h -d @1700000001 {} +
"""


def set_attributes(root):
    os.setxattr(root / "usr/bin/ping", "security.capability", CAPABILITY)
    os.setxattr(root / "usr/lib/lib.so.1.2", "user.note", b"a\0b")


def our_image():
    """An image of three layers made by us, and the tree that its layers were captured from."""
    if os.geteuid() != 0:
        raise Skip("owners and mounts need root")
    home = WORK / "ours"
    if not home.exists():
        for name in ("root", "one", "two", "w"):
            (home / name).mkdir(parents=True)
        shell(ROOT, home / "root")
        set_attributes(home / "root")
        # Go writes such names in a way that libarchive refuses, so only we make them here.
        (home / "root" / os.fsdecode(b"opt/raw\377name")).write_text("raw")
        off = "redirect_dir=off,metacopy=off,index=off"
        in_namespace(f"lowerdir={home}/root,upperdir={home}/one,workdir={home}/w,{off}", CHANGES)
        text = in_namespace(
            f"lowerdir={home}/one:{home}/root,upperdir={home}/two,workdir={home}/w,{off}",
            MORE + f"exec '{__file__}' '{LAYER}' '{HELMR}' --tree .")
        (home / "tree.json").write_text(text)
        layer("make", home / "worker", "test.local/ours:zstd", home / "root", home / "one",
              home / "two")
        layer("recode", home / "worker", "test.local/ours:zstd", "test.local/ours:gzip")
        short_names(home / "worker/oci", home / "layout")
    return home, json.loads((home / "tree.json").read_text())


def short_names(layout, to):
    """A copy of our layout whose references are tags: umoci takes no others."""
    shutil.copytree(layout, to)
    index = json.loads((to / "index.json").read_text())
    for entry in index["manifests"]:
        notes = entry["annotations"]
        notes["org.opencontainers.image.ref.name"] = \
            notes["org.opencontainers.image.ref.name"].rpartition(":")[2]
    (to / "index.json").write_text(json.dumps(index))


def take(layout, tag, reference):
    """The tree of an image of another tool, as our worker unpacks it."""
    oci = WORK / "theirs" / reference / "oci"
    shutil.copytree(layout, oci)
    index = json.loads((oci / "index.json").read_text())
    index["manifests"] = [entry for entry in index["manifests"]
                          if entry["annotations"]["org.opencontainers.image.ref.name"] == tag]
    index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] = \
        f"test.local/{reference}:1"
    (oci / "index.json").write_text(json.dumps(index))
    return merged_tree(layer("apply", oci.parent, f"test.local/{reference}:1")["folders"])


@test
def our_own_layers_come_back_as_they_were():
    home, tree = our_image()
    for tag in ("zstd", "gzip"):
        folders = layer("apply", home / "worker", f"test.local/ours:{tag}")["folders"]
        assert len(folders) == 3
        same(merged_tree(folders), tree)


@test
def the_same_folders_make_the_same_image():
    home, _ = our_image()
    made = [layer("make", WORK / f"again-{i}", "test.local/ours:zstd", home / "root", home / "one",
                  home / "two")["digest"] for i in range(2)]
    assert made[0] == made[1]


@test
def umoci_unpacks_what_we_make():
    needs("umoci")
    home, tree = our_image()
    run("umoci", "unpack", "--image", f"{home}/layout:gzip", WORK / "umoci-bundle")
    same(tree, tree_of(WORK / "umoci-bundle/rootfs"))


@test
def exports_are_for_everyone():
    needs("skopeo", "umoci", "podman")
    home, tree = our_image()
    for option, archive in (["--gzip"], WORK / "gzip.tar"), ([], WORK / "zstd.tar"):
        run(HELMR, "image", "export", "--data-dir", home, *option, "test.local/ours:zstd", archive)
    run("skopeo", "--insecure-policy", "copy", f"oci-archive:{WORK}/gzip.tar",
        f"oci:{WORK}/exported:1")
    run("umoci", "unpack", "--image", f"{WORK}/exported:1", WORK / "exported-bundle")
    same(tree, tree_of(WORK / "exported-bundle/rootfs"))
    for archive in ("gzip.tar", "zstd.tar"):
        storage("podman", "load", "--quiet", "-i", WORK / archive)
        at = storage("podman", "image", "mount", "test.local/ours:zstd")
        same(tree, tree_of(at))
        storage("podman", "image", "rm", "--force", "test.local/ours:zstd")


@test
def skopeo_copies_what_we_make():
    needs("skopeo")
    home, _ = our_image()
    for tag in ("zstd", "gzip"):
        run("skopeo", "--insecure-policy", "copy", f"oci:{home}/layout:{tag}",
            f"dir:{WORK}/skopeo-{tag}")
        manifest = json.loads((WORK / f"skopeo-{tag}/manifest.json").read_text())
        for blob in manifest["layers"]:
            name = blob["digest"].partition(":")[2]
            assert (WORK / f"skopeo-{tag}" / name).stat().st_size == blob["size"]
            assert blob["mediaType"].endswith(tag)


@test
def skopeo_recodes_our_layers_and_they_stay_the_same_tree():
    needs("skopeo", "umoci")
    home, tree = our_image()
    run("skopeo", "--insecure-policy", "copy", "--dest-compress-format", "gzip",
        "--dest-force-compress-format" if "--dest-force-compress-format" in
        run("skopeo", "copy", "--help") else "--dest-compress",
        f"oci:{home}/layout:gzip", f"oci:{WORK}/skopeo-oci:again")
    run("umoci", "unpack", "--image", f"{WORK}/skopeo-oci:again", WORK / "skopeo-bundle")
    same(tree, tree_of(WORK / "skopeo-bundle/rootfs"))
    same(tree, take(WORK / "skopeo-oci", "again", "recoded"))


@test
def buildah_mounts_what_we_make():
    needs("buildah")
    home, tree = our_image()
    for tag in ("zstd", "gzip"):
        storage("buildah", "from", "--name", f"ours-{tag}", f"oci:{home}/layout:{tag}")
        at = storage("buildah", "mount", f"ours-{tag}")
        same(tree, tree_of(at))
        storage("buildah", "umount", f"ours-{tag}")


@test
def podman_mounts_what_we_make():
    needs("podman")
    home, tree = our_image()
    image = storage("podman", "pull", "--quiet", f"oci:{home}/layout:zstd")
    at = storage("podman", "image", "mount", image.splitlines()[-1])
    same(tree, tree_of(at))
    storage("podman", "image", "umount", image.splitlines()[-1])


@test
def we_unpack_what_umoci_makes():
    needs("umoci")
    if os.geteuid() != 0:
        raise Skip("owners need root")
    layout, bundle = WORK / "umoci", WORK / "umoci-work"
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", f"{layout}:empty")
    run("umoci", "unpack", "--image", f"{layout}:empty", bundle)
    shell(ROOT, bundle / "rootfs")
    set_attributes(bundle / "rootfs")
    run("umoci", "repack", "--refresh-bundle", "--image", f"{layout}:one", bundle)
    shell(CHANGES, bundle / "rootfs")
    run("umoci", "repack", "--refresh-bundle", "--image", f"{layout}:two", bundle)
    shell(MORE, bundle / "rootfs")
    run("umoci", "repack", "--refresh-bundle", "--image", f"{layout}:three", bundle)
    (WORK / "inserted").write_text("inserted\n")
    run("umoci", "insert", "--image", f"{layout}:three", "--tag", "four", "--opaque",
        WORK / "inserted", "/etc/conf.d")
    for tag in ("one", "three", "four"):
        run("umoci", "unpack", "--image", f"{layout}:{tag}", WORK / f"umoci-{tag}")
        same(take(layout, tag, f"umoci-{tag}"), tree_of(WORK / f"umoci-{tag}/rootfs"))


@test
def we_unpack_what_buildah_builds_from_a_dockerfile():
    needs("buildah")
    if os.geteuid() != 0:
        raise Skip("owners need root")
    context = WORK / "context"
    (context / "tree").mkdir(parents=True)
    shell(ROOT.replace("mkfifo -m 0620 var/fifo", ":"), context / "tree")
    set_attributes(context / "tree")
    shell("tar -C tree -czf part.tar.gz etc usr && printf new > etc-changed", context)
    (context / "Dockerfile").write_text(
        "FROM scratch\nCOPY tree /\nADD part.tar.gz /added/\n"
        "COPY --chown=12:34 etc-changed /etc/changed\nWORKDIR /srv/app\nCOPY tree/opt .\n")
    storage("buildah", "bud", "--layers", "--isolation", "chroot", "-q", "-t", "test.local/bud:1",
            context)
    storage("buildah", "push", "test.local/bud:1", f"oci:{WORK}/bud:1")
    storage("buildah", "from", "--name", "bud", "test.local/bud:1")
    same(take(WORK / "bud", "1", "bud"), tree_of(storage("buildah", "mount", "bud")))
    storage("buildah", "umount", "bud")


@test
def we_unpack_what_buildah_commits():
    needs("buildah")
    if os.geteuid() != 0:
        raise Skip("owners need root")
    base = "scratch"
    for step, script in enumerate((ROOT, CHANGES, MORE)):
        storage("buildah", "from", "--name", f"step-{step}", base)
        at = pathlib.Path(storage("buildah", "mount", f"step-{step}"))
        shell(script, at)
        if step == 0:
            set_attributes(at)
        base = f"test.local/commit:{step}"
        storage("buildah", "commit", "-q", f"step-{step}", base)
    storage("buildah", "push", base, f"oci:{WORK}/commit:2")
    storage("buildah", "from", "--name", "committed", base)
    same(take(WORK / "commit", "2", "commit"), tree_of(storage("buildah", "mount", "committed")))


if "--tree" in sys.argv:
    WORK.rmdir()
    print(json.dumps(tree_of(sys.argv[-1])))
else:
    try:
        sys.exit(run_tests())
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
