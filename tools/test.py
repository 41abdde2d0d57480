#!/usr/bin/env python3
"""Run every suite, show what failed, and end with one line: N passed, N failed[, N skipped].

Two lanes run side by side, because half of the tests wait more than they work. Tests that change
what a host has only one of, such as ip_forward, are in one lane, one after the other; nobody starts
a Helmr before they are done.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAP = re.compile(r"^\s*(not )?ok\b[^#]*(#\s*(SKIP|skip)\b.*)?")


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.text = ""

    def all(self):
        return self.passed + self.failed + self.skipped

    def say(self, text):
        self.text += text + "\n"

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


def run(command, env=None, **options):
    return subprocess.run(command, cwd=ROOT, text=True, errors="replace",
                          env={**os.environ, **(env or {})}, **options)


def meson_suite(folder, arguments, count, env=None):
    name = "-".join(["tests", *(word for word in arguments if not word.startswith("-"))])
    log = ROOT / folder / f"meson-logs/{name}.json"
    log.unlink(missing_ok=True)  # An earlier run's results are nobody's.
    done = run(["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", "--logbase", name,
                "--timeout-multiplier", "2", *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        entry = json.loads(line)
        before = count.all()
        count_tap(entry.get("stdout") or "", count)
        is_ok = entry["result"] in ("OK", "SKIP")
        # A program that crashed, or that is no TAP program, counts as itself.
        if count.all() == before:
            count.add(is_ok, entry["result"] == "SKIP")
        elif not is_ok and not re.search(r"^\s*not ok", entry.get("stdout") or "", re.M):
            count.add(False, False)
    if done.returncode:
        count.say(done.stdout)
        # Nothing was run, or what failed is not in the log.
        if not count.failed:
            count.add(False, False)


def tap_program(command, count):
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    before = count.failed
    count_tap(done.stdout, count)
    if done.returncode and count.failed == before:
        count.add(False, False)
    if done.returncode:
        count.say(done.stdout)


def check(command, count):
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    count.add(done.returncode == 0, False)
    if done.returncode:
        count.say(f"failed: {' '.join(command)}\n{done.stdout}")


ANY = None  # lane: the first that has nothing else to do


# Name, lane and body of each step, in the order of a lane.
def work_of(build):
    default, san = f"{build}/default", f"{build}/san"
    # Sanitized code is slow: servers are started on one engine unless the caller asks for both.
    one_engine = {"HELMR_TEST_ENGINES": os.environ.get("HELMR_TEST_ENGINES", "sqlite")}
    each, alone = ["--suite", "unit", "--suite", "corpus", "--no-suite", "alone"], ["--suite", "alone"]
    return [
        ("style", 0, lambda c: (check(["tools/check_format.sh"], c),
                                check(["docs/check_links.py"], c),
                                check(["docs/gen_cli.py", "--check", f"{default}/helmr"], c),
                                meson_suite(default, ["--suite", "style"], c))),
        ("unit", 0, lambda c: meson_suite(default, each, c)),
        ("typescript", 0, lambda c: (check(["npm", "run", "--silent", "typecheck"], c),
                                     tap_program(["npm", "run", "--silent", "test"], c))),
        ("sanitizers", 0, lambda c: meson_suite(san, each, c, one_engine)),
        ("process", 0, lambda c: meson_suite(default, ["--suite", "process"], c)),
        ("unit alone", 1, lambda c: meson_suite(default, alone, c)),
        ("sanitizers alone", 1, lambda c: meson_suite(san, alone, c)),
        *((f"system {part}", ANY, lambda c, part=part: tap_program(["tests/system/run", part], c))
          for part in ("own", "parked", "shared")),
    ]


class Run:
    def __init__(self, steps):
        self.steps = steps
        self.rest = collections.deque(step for step in steps if step[1] is ANY)
        self.alone_done = threading.Event()
        self.lock = threading.Lock()
        self.counts = []

    def lane(self, at):
        for name, of, suite in self.steps:
            if of == at:
                self.step(name, suite)
        if at == 1:
            self.alone_done.set()
        self.alone_done.wait()
        while self.rest:
            try:
                name, _, suite = self.rest.popleft()
            except IndexError:  # The other lane was faster.
                break
            self.step(name, suite)

    def step(self, name, suite):
        count, begun = Count(), time.monotonic()
        try:
            suite(count)
        except Exception as error:  # A lane that breaks must not look as if it had passed.
            count.say(f"{type(error).__name__}: {error}")
            count.add(False, False)
        with self.lock:
            self.counts.append(count)
            print(f"== {name}\n{count.text}   {count.passed} passed, {count.failed} failed, "
                  f"{count.skipped} skipped in {time.monotonic() - begun:.0f} s", flush=True)


def main():
    build, sections = sys.argv[1], set(sys.argv[2:])
    run_all = Run([step for step in work_of(build) if not sections or step[0].split()[0] in sections])
    lanes = [threading.Thread(target=run_all.lane, args=(at,)) for at in (0, 1)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    passed, failed, skipped = (sum(getattr(count, what) for count in run_all.counts)
                               for what in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed != 0 or passed == 0)


main()
