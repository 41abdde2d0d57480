#!/usr/bin/env python3
"""Which engine a worker takes, as a process: engine_test.py HELMR

TAP on stdout. No server runs here: a worker chooses its engines before it looks for one. Programs of
engines are hidden by naming paths where nothing is.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tap import Skip, run_tests, test

HELMR = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(prefix="helmr-engine-"))
HIDDEN = {f"HELMR_WORKER_{name}_PATH": "/nowhere"
          for name in ("FIRECRACKER", "JAILER", "QEMU", "RUNSC", "RUNC")}


def helmr(command, **settings):
    if os.geteuid() != 0:
        raise Skip("sandboxes need root")
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HELMR_")}
    env = {**keep, "HELMR_DATA_DIR": str(WORK / "data"), "HELMR_CONTROL_URL": "http://127.0.0.1:9",
           "HELMR_CHECKPOINT_ENCRYPTION_KEY": base64.b64encode(bytes(32)).decode(),
           "HELMR_WORKER_NETWORK": "none", **settings}
    return subprocess.run([HELMR, *command], env=env, text=True, capture_output=True, timeout=300)


def refused(**settings):
    """The worker's last word, and the engines that it tried."""
    done = helmr(["worker"], **settings)
    assert done.returncode == 1, f"exit {done.returncode}: {done.stderr}"
    lines = done.stderr.strip().splitlines()
    tried = [json.loads(line)["engine"] for line in lines if '"engine probed"' in line]
    return lines[-1], tried


@test
def an_engine_that_was_named_is_used_or_nothing_is():
    for name in ("firecracker", "qemu", "gvisor", "container"):
        hidden = {path: value for path, value in HIDDEN.items()
                  if path != "HELMR_WORKER_RUNSC_PATH" or name == "gvisor"}
        word, tried = refused(HELMR_ENGINE=name, **hidden)
        assert f"no engine can be used here, see helmr doctor (HELMR_ENGINE={name}): {name}: " in word, word
        assert tried == [name], tried


@test
def auto_says_of_each_engine_why_it_is_not_taken_and_tries_no_container():
    shown = {path: value for path, value in HIDDEN.items() if path != "HELMR_WORKER_RUNC_PATH"}
    word, tried = refused(**shown)
    assert "(HELMR_ENGINE=auto): firecracker: " in word and "container" not in word, word
    assert tried == ["firecracker", "qemu", "gvisor"], tried


@test
def a_word_that_names_no_engine_is_refused_by_its_variable():
    for variable in ("HELMR_ENGINE", "HELMR_WORKER_BUILD_ENGINE", "HELMR_WORKER_QEMU_ACCEL"):
        word, tried = refused(**{variable: "docker"})
        assert word.startswith(f"helmr: {variable} must be ") and not tried, word


@test
def a_worker_that_cannot_build_says_so_at_its_start():
    if not shutil.which("runc"):
        raise Skip("runc is not installed")
    hidden = {path: value for path, value in HIDDEN.items() if path != "HELMR_WORKER_RUNC_PATH"}
    word, tried = refused(HELMR_ENGINE="container", HELMR_WORKER_BUILD_ENGINE="gvisor", **hidden)
    assert "no engine can build images here (HELMR_WORKER_BUILD_ENGINE=gvisor): gvisor: " in word, word
    assert tried == ["container", "gvisor"], tried
    word, _ = refused(HELMR_ENGINE="container", HELMR_WORKER_BUILD_ENGINE="qemu", **hidden)
    assert "(HELMR_WORKER_BUILD_ENGINE=qemu): qemu: " in word, word


@test
def doctor_names_the_cure_of_every_engine_that_is_missing():
    done = helmr(["doctor", "--json"], **HIDDEN)
    assert done.returncode == 1, done.stderr
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    for name in ("firecracker", "qemu", "gvisor", "container"):
        check = checks[f"engine {name}"]
        assert check["level"] == "warn" and check["cure"] and "not usable" in check["detail"], check
    assert checks["engines"]["level"] == "fail", checks["engines"]


try:
    status = run_tests()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
sys.exit(status)
