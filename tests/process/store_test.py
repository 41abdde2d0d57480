#!/usr/bin/env python3
"""The server's store as a process has it on a disk: store_test.py HELMR

TAP on stdout. Objects are stored as a worker stores them; servers are killed, files are damaged, a
disk is too small.
"""
import base64
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from tap import Skip, run_tests, test

HELMR = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(prefix="helmr-store-"))
PATIENCE = 60
PROTOCOL = "helmr.worker.v0"
MIB = 1 << 20


def environment(**more):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HELMR_")}
    return {**keep, "HELMR_CONFIG_DIR": str(WORK / "config"), "HOME": str(WORK), **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def give_keys(data):
    (data / "keys").mkdir(parents=True, mode=0o700)
    for name, encode in (("master", base64.b64encode), ("bootstrap", base64.urlsafe_b64encode)):
        path = data / "keys" / name
        path.write_bytes(encode(os.urandom(32)).rstrip(b"=" if name == "bootstrap" else b"") + b"\n")
        path.chmod(0o600)


def name_of(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """`helmr server` on a data directory, and one worker that it knows."""

    def __init__(self, name, before=()):
        self.data, self.before = WORK / name, list(before)
        give_keys(self.data)
        self.bearer = None
        self.start()
        self.enrol()

    def start(self):
        self.port = free_port()
        log = open(self.data / "log", "w")
        self.process = subprocess.Popen(
            [*self.before, HELMR, "server", "--data-dir", self.data, "--addr",
             f"127.0.0.1:{self.port}"],
            env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        until = time.monotonic() + PATIENCE
        while '"listening"' not in (self.data / "log").read_text():
            assert self.process.poll() is None, (self.data / "log").read_text()
            assert time.monotonic() < until, "the server never listened"
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(timeout=PATIENCE) == 0, (self.data / "log").read_text()

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=PATIENCE)

    def ask(self, method, path, body=None):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Helmr-Worker-Protocol": PROTOCOL}
        if self.bearer:
            headers["Authorization"] = f"Bearer {self.bearer}"
            headers["Content-Type"] = "application/octet-stream"
        link.request(method, path, body, headers)
        answer = link.getresponse()
        content = answer.read()
        link.close()
        return answer.status, content

    def enrol(self):
        who = {"machine_id": "m", "protocol": PROTOCOL}
        token = (self.data / "keys" / "bootstrap").read_text().strip()
        status, text = self.ask("POST", "/api/worker/register", json.dumps(
            {**who, "token": token, "resource_id": "one", "version": "1", "roles": ["run"]}))
        assert status == 200, text
        known = json.loads(text)
        status, text = self.ask("POST", "/api/worker/session", json.dumps(
            {**who, "worker_id": known["worker_id"], "credential": known["credential"],
             "boot_id": "018f0000-0000-7000-8000-000000000001"}))
        assert status == 200, text
        self.bearer = json.loads(text)["bearer"]

    def put(self, content):
        status, text = self.ask("PUT", f"/api/worker/objects/{name_of(content)}", content)
        return status, text

    def get(self, content):
        return self.ask("GET", f"/api/worker/objects/{name_of(content)}")

    def path(self, content):
        name = name_of(content)
        return self.data / "store" / "blobs" / name[:2] / name

    def files(self):
        return [path for path in (self.data / "store").rglob("*") if path.is_file()]

    def verify(self):
        done = subprocess.run([HELMR, "store", "verify", "--data-dir", self.data],
                              env=environment(), capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout + done.stderr


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@test
def nothing_lies_plain_in_the_store():
    marker = b"a line that nobody else may read\n"
    content = marker * (3 * MIB // len(marker))
    with Server("plain") as server:
        assert server.put(content)[0] == 200 and server.put(marker)[0] == 200
        assert server.files() and not any(marker in path.read_bytes() for path in server.files())
        assert server.get(content) == (200, content) and server.get(marker) == (200, marker)
        assert server.verify() == (0, "verified: 2 objects, 0 MiB, 0 damaged\n"), server.verify()
    assert server.verify()[0] == 0


@test
def a_server_that_is_killed_while_it_stores_shows_all_or_nothing():
    with Server("killed") as server:
        stored = [os.urandom(100_000)]
        assert server.put(stored[0])[0] == 200
        for round_number in range(8):
            content = os.urandom(6 * MIB)
            said = []

            def upload(bytes_to_put=content, answers=said):
                try:
                    answers.append(server.put(bytes_to_put)[0])
                except OSError:
                    pass
                except http.client.HTTPException:
                    pass

            thread = threading.Thread(target=upload)
            thread.start()
            time.sleep(random.uniform(0, 0.04 * (round_number + 1)))
            server.kill()
            thread.join(PATIENCE)
            server.start()
            status, back = server.get(content)
            assert (status, back) == (200, content) or (status == 404 and not said), status
            assert server.get(stored[0]) == (200, stored[0])
            code, text = server.verify()
            assert code == 0, text


@test
def damage_is_named_told_to_readers_and_mended_by_storing_again():
    with Server("damage") as server:
        small, large = os.urandom(5000), os.urandom(3 * MIB)
        assert server.put(small)[0] == 200 and server.put(large)[0] == 200
        flip(server.path(small), 700)
        flip(server.path(large), 2 * MIB + 77)
        code, text = server.verify()
        assert code == 1 and "2 damaged" in text, text
        assert name_of(small) in text and name_of(large) in text, text

        status, text = server.get(small)
        assert status == 500 and json.loads(text)["code"] == "object_damaged", text
        try:
            status, text = server.get(large)
            assert False, "a damaged object came whole"
        except http.client.IncompleteRead as broken:
            assert large.startswith(broken.partial)
        status, text = server.get(large)
        assert status == 500 and json.loads(text)["code"] == "object_damaged", text

        assert server.put(small)[0] == 200 and server.put(large)[0] == 200
        assert server.get(small) == (200, small) and server.get(large) == (200, large)
        assert server.verify()[0] == 0
        server.path(small).unlink()
        code, text = server.verify()
        assert code == 1 and "the file is missing" in text, text
        assert server.get(small)[0] == 404


@test
def a_disk_that_is_full_while_sealing_publishes_nothing():
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True)
    if os.geteuid() != 0 or probe.returncode != 0:
        raise Skip("only root can mount a small disk")
    store = WORK / "full" / "store"
    script = f'mkdir -p "{store}" && mount -t tmpfs -o size=8m none "{store}" && exec "$@"'
    with Server("full", ["unshare", "-m", "sh", "-c", script, "sh"]) as server:
        inside = pathlib.Path(f"/proc/{server.process.pid}/root{store}")
        # The body fits once, but not beside its sealed form.
        content = os.urandom(5 * MIB)
        status, text = server.put(content)
        assert status == 503 and "full" in json.loads(text)["error"], (status, text)
        assert server.get(content)[0] == 404
        assert not [path for path in inside.rglob("*") if path.is_file()]
        small = os.urandom(MIB)
        assert server.put(small)[0] == 200 and server.get(small) == (200, small)


if __name__ == "__main__":
    try:
        status = run_tests()
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(status)
