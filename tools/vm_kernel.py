"""What is inside a kernel package: modules and what they need, and the ELF file in a compressed kernel."""
import re
import struct
import subprocess

# How a kernel's body is compressed, by its first bytes, and who unpacks it.
CODECS = [
    (b"\x02\x21\x4c\x18", ["lz4", "-d", "-c", "-q"]),
    (b"\x28\xb5\x2f\xfd", ["zstd", "-d", "-c", "-q"]),
    (b"\xfd7zXZ\x00", ["xz", "-d", "-c", "--single-stream"]),
    (b"\x1f\x8b\x08", ["gzip", "-d", "-c"]),
]
ELF = b"\x7fELF"


class KernelError(Exception):
    pass


def section(elf, wanted):
    """The bytes of one section of a little-endian ELF64 file, or none."""
    if elf[:6] != ELF + b"\x02\x01":
        raise KernelError("not a 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = rows[names_at][4]
    for name, _, _, _, offset, length in rows:
        start = names + name
        if elf[start:elf.index(b"\0", start)].decode() == wanted:
            return elf[offset:offset + length]
    return b""


def depends(module):
    """The names a module wants loaded before it."""
    for field in section(module, ".modinfo").split(b"\0"):
        if field.startswith(b"depends="):
            return [name for name in field[len(b"depends="):].decode().split(",") if name]
    return []


def key(name):
    """The kernel sees no difference between - and _ in a module's name."""
    return name.replace("-", "_")


class Modules:
    """The modules of an unpacked package, by name."""

    def __init__(self, folder):
        self.files = {key(path.name.split(".ko")[0]): path for path in folder.glob("kernel/**/*.ko*")}
        built_in = folder / "modules.builtin"
        self.built_in = {key(line.rsplit("/", 1)[-1].removesuffix(".ko"))
                         for line in (built_in.read_text().splitlines() if built_in.exists() else [])}

    def read(self, name):
        path = self.files[name]
        if path.suffix != ".xz" and path.suffix != ".zst":
            return path.read_bytes()
        tool = "xz" if path.suffix == ".xz" else "zstd"
        return subprocess.run([tool, "-d", "-c", "-q", path], check=True, stdout=subprocess.PIPE).stdout

    def order(self, wanted):
        """[(name, channel, bytes)], each after what it needs. A need of a channel's module is for that
        channel alone unless another wants it too, so modules for everybody must come first."""
        done = {}

        def add(name, channel):
            name = key(name)
            if name in done or name in self.built_in:
                return
            if name not in self.files:
                raise KernelError(f"the kernel has no module {name}")
            data = self.read(name)
            for need in depends(data):
                add(need, channel)
            done[name] = (name, channel, data)

        for name, channel in sorted(wanted, key=lambda row: row[1] != ""):
            add(name, channel)
        return list(done.values())


def wanted_modules(text):
    rows = [line.split("#")[0].split() for line in text.splitlines()]
    return [(row[0], row[1] if len(row) > 1 else "") for row in rows if row]


def elf_of_bzimage(image):
    """The kernel's own ELF file, which a machine without a boot loader begins with (boot protocol 2.08)."""
    if image[0x202:0x206] != b"HdrS":
        raise KernelError("not a bzImage")
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    body = image[start:start + length]
    for magic, command in CODECS:
        if body.startswith(magic):
            # The body ends with its unpacked size, which the tools call garbage and ignore.
            done = subprocess.run(command, input=body[:-4], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if not done.stdout.startswith(ELF):
                raise KernelError(f"{command[0]}: {done.stderr.decode(errors='replace').strip()}")
            return done.stdout
    raise KernelError("the kernel is compressed in a way that is not known here")


def elf_of(image, kind):
    """On arm64 what Debian ships is what a machine starts from; on amd64 it is unpacked."""
    return elf_of_bzimage(image) if kind == "bzimage" else image


def release_of(folder):
    found = [path.name for path in folder.iterdir() if re.fullmatch(r"[0-9][\w.+-]*", path.name)]
    if len(found) != 1:
        raise KernelError(f"one kernel release was expected, not {found}")
    return found[0]
