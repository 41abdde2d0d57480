"""Tests of processes: functions marked @test, run in order, TAP on stdout."""
import sys

TESTS = []


class Skip(Exception):
    """Why a test cannot run here."""


def test(function):
    TESTS.append(function)
    return function


def run_tests():
    """The exit status. Every fault is a failed test, and the next one still runs."""
    failed = 0
    for number, function in enumerate(TESTS, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {number} - {name}")
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}")
        except Exception as why:
            failed += 1
            print("# " + f"{type(why).__name__}: {why}".replace("\n", "\n# "))
            print(f"not ok {number} - {name}")
        sys.stdout.flush()
    print(f"1..{len(TESTS)}")
    return 1 if failed else 0
