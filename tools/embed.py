#!/usr/bin/env python3
"""Name the file to embed in a header, with its digest, so that a changed file is a changed header: embed.py FILE HEADER MACRO."""
import hashlib
import pathlib
import sys

archive, header = map(pathlib.Path, sys.argv[1:3])
digest = hashlib.sha256(archive.read_bytes()).hexdigest()
header.write_text(f'/* sha256:{digest} */\n#define {sys.argv[3]} "{archive.resolve()}"\n')
