#!/usr/bin/env python3
"""Run every suite, show what failed, and end with one line: N passed, N failed[, N skipped]."""
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAP = re.compile(r"^\s*(not )?ok\b[^#]*(#\s*(SKIP|skip)\b.*)?")


class Count:
    passed = failed = skipped = 0

    def add(self, is_ok, is_skipped):
        if is_skipped:
            self.skipped += 1
        elif is_ok:
            self.passed += 1
        else:
            self.failed += 1


def count_tap(text, count):
    """Leaves of a TAP document; a line that sums up an indented block is not one of them."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        found = TAP.match(line)
        if not found or "# Subtest" in line:
            continue
        indent = len(line) - len(line.lstrip())
        is_sum = any(re.match(rf"^\s{{{indent + 1},}}1\.\.\d+", before)
                     for before in lines[max(0, at - 3):at])
        if not is_sum:
            count.add(not found[1], bool(found[2]))


def run(command, **options):
    return subprocess.run(command, cwd=ROOT, text=True, errors="replace", **options)


def meson_suite(folder, suites, count, arguments=()):
    chosen = [word for suite in suites for word in ("--suite", suite)]
    done = run(["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", *chosen, *arguments],
               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    log = ROOT / folder / "meson-logs/testlog.json"
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        entry = json.loads(line)
        before = count.passed + count.failed + count.skipped
        count_tap(entry.get("stdout") or "", count)
        is_ok = entry["result"] in ("OK", "SKIP")
        # A program that crashed, or that is no TAP program, counts as itself.
        if count.passed + count.failed + count.skipped == before:
            count.add(is_ok, entry["result"] == "SKIP")
        elif not is_ok and not re.search(r"^\s*not ok", entry.get("stdout") or "", re.M):
            count.add(False, False)
    if done.returncode:
        print(done.stdout)


def tap_program(command, count):
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    before = count.failed
    count_tap(done.stdout, count)
    if done.returncode and count.failed == before:
        count.add(False, False)
    if done.returncode:
        print(done.stdout)


def check(command, count):
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    count.add(done.returncode == 0, False)
    if done.returncode:
        print(done.stdout)


def main():
    build, sections = sys.argv[1], set(sys.argv[2:])
    suites = [
        ("style", lambda c: (check(["tools/check_format.sh"], c),
                             check(["docs/check_links.py"], c),
                             check(["docs/gen_cli.py", "--check", f"{build}/default/helmr"], c),
                             meson_suite(f"{build}/default", ["style"], c))),
        ("unit", lambda c: meson_suite(f"{build}/default", ["unit", "corpus"], c)),
        ("sanitizers", lambda c: meson_suite(f"{build}/san", ["unit", "corpus"], c)),
        ("typescript", lambda c: (check(["npm", "run", "--silent", "typecheck"], c),
                                  tap_program(["npm", "run", "--silent", "test"], c))),
        ("process", lambda c: meson_suite(f"{build}/default", ["process"], c)),
        ("system", lambda c: tap_program(["tests/system/run"], c)),
    ]
    total = Count()
    for name, suite in suites:
        if sections and name not in sections:
            continue
        count, begun = Count(), time.monotonic()
        print(f"== {name}", flush=True)
        suite(count)
        print(f"   {count.passed} passed, {count.failed} failed, {count.skipped} skipped "
              f"in {time.monotonic() - begun:.0f} s", flush=True)
        total.passed += count.passed
        total.failed += count.failed
        total.skipped += count.skipped
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}")
    sys.exit(total.failed != 0 or total.passed == 0)


main()
