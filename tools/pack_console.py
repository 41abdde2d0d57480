#!/usr/bin/env python3
"""Pack the console's built files into one archive that the server carries: pack_console.py DIST OUT.

    "HLMRWEB1" u32 files { u32 path, u32 type, u8[16] tag, u64 raw at, u64 raw, u64 gzip at, u64 gzip } texts bytes

All numbers are little-endian. The same files give the same bytes, and an unchanged archive keeps its time, so that
nothing is rebuilt for it.
"""
import gzip
import hashlib
import pathlib
import struct
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
HEAD = struct.Struct("<8sI")
FILE = struct.Struct("<II16sQQQQ")


def pack(dist):
    paths = sorted(path for path in dist.rglob("*") if path.is_file())
    texts, names = b"", []
    for path in paths:
        name = "/" + path.relative_to(dist).as_posix()
        kind = TYPES.get(path.suffix)
        if kind is None:
            sys.exit(f"{path}: what the type of {path.suffix} is, is not known")
        names.append((name.encode(), kind.encode()))
        texts += name.encode() + kind.encode()
    at = HEAD.size + FILE.size * len(paths) + len(texts)
    table, body = b"", b""
    for path, (name, kind) in zip(paths, names):
        raw = path.read_bytes()
        small = gzip.compress(raw, 9, mtime=0)
        tag = hashlib.sha256(raw).hexdigest()[:16].encode()
        table += FILE.pack(len(name), len(kind), tag, at + len(body), len(raw),
                           at + len(body) + len(raw), len(small))
        body += raw + small
    return HEAD.pack(b"HLMRWEB1", len(paths)) + table + texts + body


def main():
    dist, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    packed = pack(dist)
    if not out.exists() or out.read_bytes() != packed:
        out.parent.mkdir(parents=True, exist_ok=True)
        new = out.with_suffix(".new")
        new.write_bytes(packed)
        new.replace(out)


main()
