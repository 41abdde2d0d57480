#!/usr/bin/env python3
"""Every relative link and every #heading in the Markdown files leads somewhere."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~)")


def prose(text):
    """Lines outside code blocks, with inline code blanked."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line.strip()):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`", "``", line), line


def anchor(title):
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def anchors(path):
    return {anchor(line.lstrip("#")) for _, _, line in prose(path.read_text())
            if re.match(r"#{1,6} ", line)}


def problem(page, target):
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    name, _, heading = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.is_relative_to(ROOT) or not path.exists():
        return f"{target} does not exist"
    if heading and path.suffix == ".md" and heading not in anchors(path):
        return f"{target} names no heading"
    return None


def main():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT,
                           check=True, text=True, capture_output=True).stdout.split()
    found = 0
    for name in names:
        page = ROOT / name
        for number, line, _ in prose(page.read_text()):
            for match in LINK.finditer(line):
                said = problem(page, match[1] or match[2])
                if said:
                    found += 1
                    print(f"{name}:{number}: {said}")
    sys.exit(found != 0)


main()
