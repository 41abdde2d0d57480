#!/usr/bin/env python3
"""Turn a text file into a C function that returns it: gen_text.py FILE NAME OUTPUT."""
import json
import pathlib
import sys

source, name, output = sys.argv[1:]
lines = pathlib.Path(source).read_text().splitlines()
body = "\n".join("    " + json.dumps(line + "\n", ensure_ascii=True) for line in lines)
pathlib.Path(output).write_text(
    '#include "server/answer_page.h"\n\n'
    f"static const char text[] =\n{body};\n\n"
    f"struct str {name}(void)\n{{\n    return (struct str){{text, sizeof text - 1}};\n}}\n"
)
