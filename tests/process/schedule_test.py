#!/usr/bin/env python3
"""Two servers as processes on one PostgreSQL, and schedules that are due for both: schedule_test.py HELMR

TAP on stdout. What a deployment leaves in the database is written there, so no worker is needed.
"""
import base64
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from tap import Skip, run_tests, test

HELMR = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = pathlib.Path(tempfile.mkdtemp(prefix="helmr-schedule-"))
PATIENCE = 120
CROWD = 1000

DEPLOYED = """
INSERT INTO deployments (id, environment_id, version, version_day, version_number, state,
    content_hash, source_object_id, source_bytes, bundle_format_version, api_version, created_ms,
    updated_ms)
SELECT 'deployment', id, '20260101.1', '20260101', 1, 'deployed', 'x', 'x', 1, 2, '2026-06-06', 1, 1
FROM environments WHERE slug = 'production';
INSERT INTO deployment_sandboxes (id, environment_id, deployment_id, sandbox_id, fingerprint,
    guest_abi, image_digest, layers, image_config, mount_path, cpu_millis, memory_mib, disk_mib,
    network)
SELECT 'sandbox', id, 'deployment', 'box', 'f', 1, 'sha256:1', '[]', '{}', '/w', 1000, 512, 1024, '{}'
FROM environments WHERE slug = 'production';
INSERT INTO deployment_tasks (id, environment_id, deployment_id, deployment_sandbox_id, task_id,
    sandbox_id, file_path, export_name, accepts_payload, max_duration_seconds, queue)
SELECT 'task', id, 'deployment', 'sandbox', 'tick', 'box', 'a.ts', 'tick', 1, 900, 'task/tick'
FROM environments WHERE slug = 'production';
UPDATE environments SET current_deployment_id = 'deployment' WHERE slug = 'production';
"""

# All of them in one second, a little later than now.
DUE = """
INSERT INTO schedules (id, environment_id, type, deduplication_key, task_id, cron, timezone, status,
    next_fire_ms, due_ms, created_ms, updated_ms)
SELECT '0190a000-0000-7000-8000-' || lpad(CAST(n AS TEXT), 12, '0'), e.id, 'imperative', 'k' || n,
    'tick', '0 3 1 1 *', 'UTC', 'active', t.ms, t.ms, 1, 1
FROM environments e, generate_series(1, %d) n,
    (SELECT CAST(extract(epoch FROM now()) AS BIGINT) * 1000 + 3000 AS ms) t
WHERE e.slug = 'production';
""" % CROWD


class Postgres:
    def __init__(self):
        self.process = subprocess.Popen([ROOT / "tests/postgres"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        word, _, rest = self.process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Skip(rest)
        self.url = rest

    def ask(self, sql):
        return subprocess.run(["psql", self.url, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"],
                              input=sql, text=True, capture_output=True, check=True).stdout.strip()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited for too long: {what}"
        time.sleep(0.1)


class Server:
    def __init__(self, name, common):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = open(WORK / f"{name}.log", "w")
        self.process = subprocess.Popen(
            [HELMR, "server", "--addr", self.url.removeprefix("http://")], env=common, cwd=WORK,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until(f"server {name}", self.is_ready)

    def is_ready(self):
        assert self.process.poll() is None, (WORK / self.log.name).read_text()
        try:
            return urllib.request.urlopen(f"{self.url}/readyz", timeout=5).status == 200
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE)


def settings(url):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HELMR_")}
    (WORK / "store").mkdir()
    return {**keep, "HELMR_DATABASE_URL": url, "HELMR_CAS_URI": f"file:{WORK}/store",
            "HELMR_MASTER_KEY": base64.b64encode(os.urandom(32)).decode(),
            "HELMR_WORKER_BOOTSTRAP_TOKEN": base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("="),
            "HELMR_CONFIG_DIR": str(WORK / "config"), "HELMR_SCHEDULE_JITTER": "0s"}


def counts(postgres):
    return postgres.ask("""
        SELECT (SELECT count(*) FROM runs WHERE reason = 'schedule'),
            (SELECT count(DISTINCT cause) FROM runs WHERE reason = 'schedule'),
            (SELECT count(*) FROM schedule_fires),
            (SELECT count(DISTINCT schedule_id) FROM schedule_fires)""")


@test
def two_servers_fire_each_of_a_thousand_once():
    postgres = Postgres()
    servers = []
    try:
        common = settings(postgres.url)
        servers = [Server(name, common) for name in ("one", "two")]
        postgres.ask(DEPLOYED + DUE)
        until("every schedule to fire", lambda: postgres.ask(
            "SELECT count(*) FROM schedules WHERE last_fire_ms IS NULL") == "0")
        # One more pass of each, in which nothing is left to do.
        time.sleep(2.5)
        assert counts(postgres) == f"{CROWD}|{CROWD}|{CROWD}|{CROWD}", counts(postgres)
        assert all(server.stop() == 0 for server in servers)
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.stop(signal.SIGKILL)
        postgres.stop()


status = run_tests()
shutil.rmtree(WORK)
sys.exit(status)
