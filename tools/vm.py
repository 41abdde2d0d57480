#!/usr/bin/env python3
"""Make what a microVM starts from: vm.py --guest build/guest --out FOLDER [--package FILE.deb]

The kernel comes from a Debian package, the initramfs is ours: the agent, the modules it loads, adapter and
SDK. Equal input gives equal bytes; artefacts.json names the digest of each file. images/guest/README.md says
more.
"""
import argparse
import hashlib
import json
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

from vm_cpio import archive
from vm_kernel import KernelError, Modules, elf_of, release_of, wanted_modules

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPE = ROOT / "images/guest"
# Where the agent mounts things; src/guest/boot.c and sandbox.h.
FOLDERS = ["proc", "dev", "sys", "run", "tmp", "image", "bundle", "scratch", "newroot"]


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def say(text):
    print(f"vm: {text}", file=sys.stderr)


def dependency(package):
    """The package of the one kernel that a meta package stands for now."""
    found = re.search(r"^Depends: (linux-image-[\w.+-]+)", output("apt-cache", "show", "--no-all-versions", package),
                      re.M)
    if not found:
        raise KernelError(f"{package} names no kernel; is it in the package lists? (apt-get update)")
    return found[1]


def fetch(package, folder):
    """A package that was fetched before is used again, so that a build changes only when it is meant to."""
    kept = sorted(folder.glob("linux-image-*.deb"))
    if kept:
        return kept[-1]
    folder.mkdir(parents=True, exist_ok=True)
    name = dependency(package)
    say(f"fetching {name}")
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        subprocess.run(["apt-get", "download", "-qq", name], cwd=fresh, check=True, stderr=subprocess.DEVNULL)
        got, = pathlib.Path(fresh).glob("*.deb")
        return got.rename(folder / got.name)


def tree(folder, at):
    return {f"{at}/{path.relative_to(folder)}": (stat.S_IFREG | 0o644, path.read_bytes())
            for path in folder.rglob("*") if path.is_file()}


def platform(guest):
    """What tools/platform.sh puts into the other engines' root."""
    agent = (guest / "src/guest/helmr-guest").read_bytes()
    return {
        "init": (stat.S_IFREG | 0o755, agent),
        **tree(ROOT / "runtime/typescript/dist", "opt/helmr/adapter"),
        "opt/helmr/adapter/reseed.node": (
            stat.S_IFREG | 0o644, (guest / "runtime/typescript/native/reseed.node").read_bytes()),
        **tree(ROOT / "sdk/typescript/dist", "opt/helmr/sdk/dist"),
        "opt/helmr/sdk/package.json": (
            stat.S_IFREG | 0o644, (ROOT / "sdk/typescript/package.json").read_bytes()),
    }


def initramfs(guest, modules):
    files = {name: (stat.S_IFDIR | 0o755, b"") for name in FOLDERS}
    files.update(platform(guest))
    for name, _, data in modules:
        files[f"modules/{name}.ko"] = (stat.S_IFREG | 0o644, data)
    order = "".join(f"{name}.ko {channel}".rstrip() + "\n" for name, channel, _ in modules)
    files["modules/order"] = (stat.S_IFREG | 0o644, order.encode())
    return archive(files)


def publish(path, data):
    """An unchanged file keeps its time; a changed one appears whole."""
    if path.exists() and path.read_bytes() == data:
        return
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    fresh.rename(path)


def make(arch, guest, out, package):
    recipe = json.loads((RECIPE / "recipe.json").read_text())[arch]
    package = package or fetch(recipe["package"], out / "packages")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        unpacked = pathlib.Path(folder)
        kernel, = unpacked.glob(recipe["kernel"])
        modules = next(path for path in (unpacked / "lib/modules", unpacked / "usr/lib/modules") if path.is_dir())
        release = release_of(modules)
        order = Modules(modules / release).order(wanted_modules((RECIPE / "modules.txt").read_text()))
        files = {
            "kernel": kernel.read_bytes(),
            "initrd": initramfs(guest, order),
        }
        files["vmlinux"] = elf_of(files["kernel"], recipe["elf"])
    name, version = output("dpkg-deb", "-f", package, "Package", "Version").split()[1::2]
    artefacts = {
        "arch": arch,
        "package": f"{name} {version}",
        "release": release,
        **{file: hashlib.sha256(data).hexdigest() for file, data in files.items()},
    }
    for file, data in files.items():
        publish(out / file, data)
    publish(out / "artefacts.json", (json.dumps(artefacts, indent=2, sort_keys=True) + "\n").encode())
    sizes = ", ".join(f"{name} {len(data) >> 10} KiB" for name, data in files.items())
    say(f"{release} in {out}: {sizes}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--guest", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--package", type=pathlib.Path, help="a kernel package instead of the newest")
    parser.add_argument("--arch", default=None, help="amd64 or arm64; this machine's unless told")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        make(options.arch or output("dpkg", "--print-architecture").strip(), options.guest, options.out,
             options.package)
    except (KernelError, subprocess.CalledProcessError) as error:
        sys.exit(f"vm: {error}")


if __name__ == "__main__":
    main()
