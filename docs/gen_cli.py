#!/usr/bin/env python3
"""Write docs/cli.md from the help texts of the binary: docs/gen_cli.py build/default/helmr

With --check nothing is written; the exit code says whether the page is fresh.
"""
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent / "cli.md"
MARK = "<!-- from here on: docs/gen_cli.py -->\n"


def ask(helmr, *words):
    return subprocess.run([helmr, *words], check=True, text=True, capture_output=True).stdout


def names(overview):
    """Command names in the overview's order, without their arguments."""
    block = overview.split("Commands:\n", 1)[1].split("\n\n", 1)[0]
    for line in block.splitlines():
        usage = re.split(r"\s{2,}", line.strip())[0]
        yield " ".join(word for word in usage.split() if word == word.lower() and word[0] not in "[-")


def main():
    arguments = [word for word in sys.argv[1:] if word != "--check"]
    helmr = arguments[0]
    overview = ask(helmr, "--help")
    parts = [MARK, "\n## All commands\n\n```\n", overview, "```\n"]
    for name in names(overview):
        text = ask(helmr, *name.split(), "--help").rstrip()
        parts += [f"\n## helmr {name}\n\n```\n", text, "\n```\n"]
    head = PAGE.read_text().split(MARK)[0]
    page = head + "".join(parts)
    if "--check" in sys.argv:
        sys.exit(page != PAGE.read_text())
    PAGE.write_text(page)


main()
