#!/usr/bin/env python3
"""Turn a file into a C array: embed_bytes.py FILE HEADER NAME."""
import pathlib
import sys

source, header, name = sys.argv[1:]
data = pathlib.Path(source).read_bytes()
rows = (", ".join(f"0x{byte:02x}" for byte in data[at:at + 16]) for at in range(0, len(data), 16))
pathlib.Path(header).write_text(
    f"static const unsigned char {name}[] = {{\n    " + ",\n    ".join(rows) + ",\n};\n")
