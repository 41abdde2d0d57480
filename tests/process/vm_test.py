#!/usr/bin/env python3
"""What microVMs start from: vm_test.py BUILD

TAP on stdout. BUILD is the folder that `make vm` works in; without a kernel package there the tests that need
one are skipped.
"""
import hashlib
import json
import pathlib
import stat
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tap import Skip, run_tests, test  # noqa: E402
from vm_cpio import archive  # noqa: E402
from vm_kernel import KernelError, Modules, depends, elf_of_bzimage, section, wanted_modules  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
KEPT = []  # temporary folders, until the end


def entries(data):
    """[(name, mode, owner, time, content)] as the kernel reads them."""
    found, at = [], 0
    while True:
        assert data[at:at + 6] == b"070701", at
        numbers = [int(data[at + 6 + i * 8:at + 14 + i * 8], 16) for i in range(13)]
        _, mode, uid, gid, _, mtime, size = numbers[:7]
        start = at + 110
        name = data[start:start + numbers[11] - 1].decode()
        body = (start + numbers[11] + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found.append((name, mode, (uid, gid), mtime, data[body:body + size]))
        at = (body + size + 3) & ~3


def module(name_needs):
    """An ELF file with nothing but .modinfo, as far as it is looked at."""
    info = b"license=GPL\0depends=" + name_needs.encode() + b"\0"
    names = b"\0.modinfo\0.shstrtab\0"
    head = 64
    rows = [(0, 0, 0, 0, 0, 0), (1, 1, 0, 0, head, len(info)), (10, 3, 0, 0, head + len(info), len(names))]
    table = b"".join(struct.pack("<IIQQQQ", *row) + bytes(24) for row in rows)
    at = head + len(info) + len(names)
    elf = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q", at)
    return elf.ljust(0x3A, b"\0") + struct.pack("<HHH", 64, len(rows), 2) + info + names + table


def modules(needs, built_in=()):
    KEPT.append(tempfile.TemporaryDirectory(prefix="helmr-vm-"))
    folder = pathlib.Path(KEPT[-1].name)
    (folder / "kernel/drivers").mkdir(parents=True)
    for name, wanted in needs.items():
        (folder / f"kernel/drivers/{name}.ko").write_bytes(module(wanted))
    (folder / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in built_in))
    return Modules(folder)


@test
def an_archive_is_sorted_and_without_owners_and_times():
    data = archive({"b/deep/file": (stat.S_IFREG | 0o644, b"text"), "a": (stat.S_IFDIR | 0o755, b"")})
    found = entries(data)
    assert [row[0] for row in found] == ["a", "b", "b/deep", "b/deep/file"], found
    assert all(row[2] == (0, 0) and row[3] == 0 for row in found)
    assert found[3][1] == stat.S_IFREG | 0o644 and found[3][4] == b"text"


@test
def a_module_comes_after_what_it_needs():
    order = modules({"c": "b,a-x", "b": "a_x", "a-x": "", "s": "v", "v": ""}).order([("s", "serial"), ("c", "")])
    assert [(name, channel) for name, channel, _ in order] == [
        ("a_x", ""), ("b", ""), ("c", ""), ("v", "serial"), ("s", "serial")], order


@test
def what_is_built_in_is_left_out_and_what_is_missing_is_refused():
    assert modules({"c": "b"}, built_in=["b"]).order([("c", ""), ("b", "")])[0][0] == "c"
    for wanted in (modules({"c": "b"}), modules({})):
        try:
            wanted.order([("c", "")])
        except KernelError:
            continue
        raise AssertionError("a missing module was not noticed")


@test
def the_list_of_modules_is_read_with_its_channels():
    assert wanted_modules("# words\na\n\nb serial # more\n") == [("a", ""), ("b", "serial")]


@test
def what_is_no_kernel_is_refused():
    for data in (b"", bytes(4096), bytes(0x202) + b"HdrS" + bytes(4096)):
        try:
            elf_of_bzimage(data)
        except KernelError:
            continue
        raise AssertionError("it was taken for a kernel")


def make(out, package):
    subprocess.run([ROOT / "tools/vm.py", "--guest", BUILD / "guest", "--out", out, "--package", package],
                   check=True, stderr=subprocess.DEVNULL)
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def kernel_package():
    found = sorted((BUILD / "guest-image/packages").glob("*.deb"))
    if not found or not (BUILD / "guest/src/guest/helmr-guest").exists():
        raise Skip("make vm has not been run")
    return found[-1]


@test
def two_runs_make_the_same_bytes_and_the_list_names_them():
    package = kernel_package()
    with tempfile.TemporaryDirectory(prefix="helmr-vm-") as first, \
            tempfile.TemporaryDirectory(prefix="helmr-vm-") as second:
        made, again = make(pathlib.Path(first), package), make(pathlib.Path(second), package)
    assert sorted(made) == ["artefacts.json", "initrd", "kernel", "vmlinux"], sorted(made)
    assert made == again
    artefacts = json.loads(made["artefacts.json"])
    for name in ("kernel", "initrd", "vmlinux"):
        assert artefacts[name] == hashlib.sha256(made[name]).hexdigest(), name
    assert made["vmlinux"].startswith(b"\x7fELF") and section(made["vmlinux"], ".notes")


@test
def the_initramfs_holds_the_agent_its_modules_and_nothing_of_this_machine():
    package = kernel_package()
    with tempfile.TemporaryDirectory(prefix="helmr-vm-") as folder:
        files = {row[0]: row for row in entries(make(pathlib.Path(folder), package)["initrd"])}
    assert files["init"][1] == stat.S_IFREG | 0o755
    assert files["init"][4] == (BUILD / "guest/src/guest/helmr-guest").read_bytes()
    assert "opt/helmr/adapter/main.js" in files and "opt/helmr/sdk/package.json" in files
    loaded = set()
    for line in files["modules/order"][4].decode().splitlines():
        name = line.split()[0]
        needs = {need.replace("-", "_") + ".ko" for need in depends(files[f"modules/{name}"][4])}
        assert needs <= loaded, (name, needs - loaded)
        loaded.add(name)
    assert {"virtio_blk.ko", "virtio_net.ko", "virtio_console.ko", "overlay.ko"} <= loaded
    assert all(str(ROOT).encode() not in row[4] for row in files.values())


sys.exit(run_tests())
