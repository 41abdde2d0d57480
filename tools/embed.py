#!/usr/bin/env python3
"""Name the archive to embed in a header, with its digest, so that a changed archive is a changed header."""
import hashlib
import pathlib
import sys

archive, header = map(pathlib.Path, sys.argv[1:])
digest = hashlib.sha256(archive.read_bytes()).hexdigest()
header.write_text(f'/* sha256:{digest} */\n#define PLATFORM_ARCHIVE "{archive.resolve()}"\n')
