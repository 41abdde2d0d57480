"""A newc archive as the kernel unpacks it, equal for equal files: sorted, no times, all of it root's."""
import stat

TRAILER = "TRAILER!!!"


def entry(name, mode, data, number):
    head = "070701" + "".join(f"{value:08x}" for value in (
        number, mode, 0, 0, 2 if stat.S_ISDIR(mode) else 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0))
    text = head.encode() + name.encode() + b"\0"
    return pad(text) + pad(data)


def pad(data):
    return data + b"\0" * (-len(data) % 4)


def with_parents(files):
    """Every folder on the way to a file, before it."""
    folders = {}
    for name in files:
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folders["/".join(parts[:depth])] = (stat.S_IFDIR | 0o755, b"")
    return {**folders, **files}


def archive(files):
    """`files` is {path: (mode, bytes)}; a folder is one whose mode says so."""
    whole = with_parents(files)
    rows = [entry(name, *whole[name], number) for number, name in enumerate(sorted(whole), 1)]
    return b"".join(rows) + entry(TRAILER, 0, b"", 0)
