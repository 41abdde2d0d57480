#!/usr/bin/env python3
"""Turn a text file into a C function that returns it: gen_text.py FILE NAME HEADER OUTPUT."""
import json
import pathlib
import sys

source, name, header, output = sys.argv[1:]
lines = pathlib.Path(source).read_text().splitlines()
body = "\n".join("    " + json.dumps(line + "\n", ensure_ascii=False) for line in lines)
pathlib.Path(output).write_text(
    f'#include "{header}"\n\n'
    f"static const char text[] =\n{body};\n\n"
    f"struct str {name}(void)\n{{\n    return (struct str){{text, sizeof text - 1}};\n}}\n"
)
