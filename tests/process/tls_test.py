#!/usr/bin/env python3
"""The server behind TLS and behind proxies, as processes: tls_test.py HELMR

TAP on stdout. A private authority is made for the test. Only the worker's test needs privileges.
"""
import http.client
import json
import base64
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from tap import Skip, run_tests, test

HELMR = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(prefix="helmr-tls-"))
PATIENCE = 60


def environment(**more):
    keep = {name: value for name, value in os.environ.items()
            if not name.startswith(("HELMR_", "SSL_CERT_"))}
    return {**keep, "HELMR_CONFIG_DIR": str(WORK / "config"), "HOME": str(WORK),
            **{name: str(value) for name, value in more.items()}}


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, cwd=WORK)


def make_authority():
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", "ca.key", "-out", "ca.pem", "-days", 365, "-subj", "/CN=Test authority",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")


def make_certificate(name):
    """NAME.pem with the key NAME.key, as a public authority would make it for this machine."""
    (WORK / "extensions").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n"
                                     "extendedKeyUsage=serverAuth\nkeyUsage=digitalSignature\n"
                                     "crlDistributionPoints=URI:http://crl.example.test/ca.crl\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=localhost")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", 90, "-out", f"{name}.pem", "-extfile", "extensions")
    os.chmod(WORK / f"{name}.key", 0o600)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def give_keys(data):
    (data / "keys").mkdir(parents=True, mode=0o700)
    for name in ("master", "bootstrap"):
        done = subprocess.run("head -c 32 /dev/urandom | base64", shell=True, check=True,
                              capture_output=True, text=True)
        text = done.stdout if name == "master" else done.stdout.translate({43: "-", 47: "_", 61: ""})
        path = data / "keys" / name
        path.write_text(text)
        path.chmod(0o600)


class Server:
    """`helmr server`, waited for by the line it logs."""

    def __init__(self, name, host="127.0.0.1", tls=True, **more):
        self.port = free_port()
        self.data = WORK / name
        if not self.data.exists():
            give_keys(self.data)
        files = {"HELMR_TLS_CERT_FILE": WORK / "live.pem", "HELMR_TLS_KEY_FILE": WORK / "live.key"}
        self.log_path = WORK / f"{name}.log"
        self.process = subprocess.Popen(
            [HELMR, "server", "--data-dir", self.data, "--addr", f"{host}:{self.port}"],
            env=environment(**(files if tls else {}), **{"HELMR_LOG_LEVEL": "debug", **more}),
            cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(self.log_path, "w"))
        self.wait_for("listening")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=PATIENCE) == 0, self.log_path.read_text()

    def lines(self, event):
        whole = self.log_path.read_text().rpartition("\n")[0]
        return [line for line in map(json.loads, whole.splitlines()) if line["event"] == event]

    def wait_for(self, event):
        until = time.monotonic() + PATIENCE
        while not self.lines(event):
            assert self.process.poll() is None, self.log_path.read_text()
            assert time.monotonic() < until, f"never logged: {event}"
            time.sleep(0.02)

    def ask(self, path, method="GET", body=None, tls=True, **headers):
        """Status, headers and body of one request on a connection of its own."""
        if tls:
            trust = ssl.create_default_context(cafile=WORK / "ca.pem")
            link = http.client.HTTPSConnection("localhost", self.port, context=trust, timeout=PATIENCE)
        else:
            link = http.client.HTTPConnection("localhost", self.port, timeout=PATIENCE)
        link.request(method, path, body, {name.replace("_", "-"): value
                                          for name, value in headers.items()})
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, answer.headers, text

    def serial(self):
        trust = ssl.create_default_context(cafile=WORK / "ca.pem")
        with socket.create_connection(("localhost", self.port), PATIENCE) as link, \
                trust.wrap_socket(link, server_hostname="localhost") as session:
            return session.getpeercert()["serialNumber"]


def refused(says, *flags, **more):
    data = WORK / "refused"
    if not data.exists():
        give_keys(data)
    done = subprocess.run([HELMR, "server", "--data-dir", data, *flags], env=environment(**more),
                          cwd=WORK, stdin=subprocess.DEVNULL, text=True, capture_output=True,
                          timeout=PATIENCE)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    assert done.returncode == 1, f"exit {done.returncode}: {last}"
    for word in says:
        assert word in last, f"{last!r} does not say {word!r}"


@test
def a_server_that_would_speak_in_the_clear_to_everybody_does_not_start():
    refused(["HELMR_CONTROL_ADDR", "HELMR_TLS_CERT_FILE"], "--addr", "0.0.0.0:0")
    refused(["HELMR_CONTROL_ADDR"], HELMR_CONTROL_ADDR="[::]:0")
    refused(["HELMR_PUBLIC_URL", "https"], HELMR_PUBLIC_URL="http://helmr.example.test")
    refused(["HELMR_TRUSTED_PROXIES"], HELMR_TRUSTED_PROXIES="everybody")


@test
def wrong_tls_files_stop_the_start_by_name():
    live, key, other = WORK / "live.pem", WORK / "live.key", WORK / "other.key"
    shutil.copy(key, WORK / "open.key")
    os.chmod(WORK / "open.key", 0o644)
    addr = ("--addr", "127.0.0.1:0")
    refused(["HELMR_TLS_KEY_FILE", "both"], *addr, HELMR_TLS_CERT_FILE=live)
    refused(["HELMR_TLS_CERT_FILE", "both"], *addr, HELMR_TLS_KEY_FILE=key)
    refused(["HELMR_TLS_KEY_FILE", "not that of the certificate"], *addr,
            HELMR_TLS_CERT_FILE=live, HELMR_TLS_KEY_FILE=other)
    refused(["HELMR_TLS_KEY_FILE", "chmod 600"], *addr,
            HELMR_TLS_CERT_FILE=live, HELMR_TLS_KEY_FILE=WORK / "open.key")
    refused(["HELMR_TLS_CERT_FILE"], *addr, HELMR_TLS_CERT_FILE=WORK / "none", HELMR_TLS_KEY_FILE=key)


@test
def a_server_on_every_address_speaks_tls_and_offers_no_local_login():
    with Server("open", host="0.0.0.0", HELMR_PUBLIC_URL="https://helmr.example.test") as server:
        assert server.ask("/healthz")[0] == 200
        assert server.ask("/api/auth/dev/login", "POST", "{}")[0] == 404
        status, headers, text = server.ask("/", tls=False)
        assert status == 400 and "https://" in text, (status, text)
        _, headers, _ = server.ask("/healthz")
        assert headers["Strict-Transport-Security"].startswith("max-age=31536000"), headers


@test
def pages_are_held_to_strict_headers():
    want = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
            "X-Frame-Options": "DENY", "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin"}
    with Server("pages", HELMR_PUBLIC_URL="https://helmr.example.test") as server:
        status, headers, _ = server.ask("/")
        assert status == 303 and headers["Location"].startswith("/login"), (status, headers)
        status, headers, _ = server.ask("/login")
        assert status == 200, status
        for name, value in want.items():
            assert headers[name] == value, (name, headers[name])
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy, policy
        assert "unsafe" not in policy and "camera=()" in headers["Permissions-Policy"]
        assert server.ask("/api/me")[1]["Cache-Control"] == "no-store"


@test
def localhost_is_not_bound_to_https_for_ever():
    with Server("pages") as server:
        assert server.ask("/healthz")[1]["Strict-Transport-Security"] is None


@test
def the_command_line_works_with_a_private_authority():
    port = free_port()
    with open(WORK / "up.log", "w") as log:
        up = subprocess.Popen(
            [HELMR, "up", "--no-worker", "--data-dir", WORK / "up", "--addr", f"127.0.0.1:{port}"],
            env=environment(HELMR_TLS_CERT_FILE=WORK / "live.pem", HELMR_TLS_KEY_FILE=WORK / "live.key",
                            HELMR_PUBLIC_URL=f"https://localhost:{port}"),
            cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert up.stdout.readline() == f"console: https://localhost:{port}/dev/login\n"
        up.stdout.readline()
        done = subprocess.run([HELMR, "key", "create", "ci", "--permission", "all", "--json"], text=True, capture_output=True,
                              env=environment(SSL_CERT_FILE=WORK / "ca.pem"), timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        key = json.loads(done.stdout)["raw_key"]
        with_key = {"HELMR_API_KEY": key, "HELMR_API_URL": f"https://localhost:{port}"}
        done = subprocess.run([HELMR, "ps", "--json"], text=True, capture_output=True, timeout=PATIENCE,
                              env=environment(SSL_CERT_FILE=WORK / "ca.pem", **with_key))
        assert done.returncode == 0, done.stderr
        done = subprocess.run([HELMR, "ps"], text=True, capture_output=True, timeout=PATIENCE,
                              env=environment(**with_key))
        assert done.returncode == 1 and "is not trusted" in done.stderr, done.stderr
        assert "SSL_CERT_FILE" in done.stderr, done.stderr
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=PATIENCE) == 0, (WORK / "up.log").read_text()


@test
def a_worker_enrols_over_tls():
    if os.geteuid() != 0:
        raise Skip("a worker needs root")
    if not shutil.which("runsc"):
        raise Skip("runsc is not installed")
    with Server("plane", HELMR_PUBLIC_URL="https://localhost") as server:
        worker_env = environment(
            HELMR_CONTROL_URL=f"https://localhost:{server.port}", HELMR_ENGINE="gvisor",
            HELMR_WORKER_BOOTSTRAP_TOKEN_FILE=server.data / "keys/bootstrap",
            HELMR_CHECKPOINT_ENCRYPTION_KEY=base64.b64encode(os.urandom(32)).decode(),
            HELMR_DATA_DIR=WORK / "worker", SSL_CERT_FILE=WORK / "ca.pem", HELMR_LOG_LEVEL="info",
            HELMR_WORKER_STANDBYS="0")
        with open(WORK / "worker.log", "w") as log:
            worker = subprocess.Popen([HELMR, "worker"], env=worker_env, cwd=WORK, stderr=log,
                                      stdout=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 2 * PATIENCE
        try:
            while not any(line["path"].startswith("/api/worker/") and line["status"] == 200
                          for line in server.lines("request")):
                said = (WORK / "worker.log").read_text()
                if worker.poll() is not None and "engine" in said:
                    raise Skip(said.strip().splitlines()[-1][:200])
                assert worker.poll() is None and time.monotonic() < until, said
                time.sleep(0.05)
        finally:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
            worker.wait(timeout=PATIENCE)


def renew():
    with Server("renewal") as server:
        before = server.serial()
        with socket.create_connection(("localhost", server.port), PATIENCE) as link:
            trust = ssl.create_default_context(cafile=WORK / "ca.pem")
            with trust.wrap_socket(link, server_hostname="localhost") as old:
                os.replace(WORK / "renewed.pem", WORK / "live.pem")
                os.replace(WORK / "renewed.key", WORK / "live.key")
                until = time.monotonic() + PATIENCE
                while server.serial() == before:
                    assert time.monotonic() < until, "the old certificate is still served"
                    time.sleep(0.1)
                old.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert old.recv(100).startswith(b"HTTP/1.1 200"), "the old session was cut"
        (WORK / "live.pem").write_text("rubbish")
        until = time.monotonic() + PATIENCE
        while not server.lines("the changed TLS files are not used"):
            assert server.serial() and time.monotonic() < until
            time.sleep(0.1)
        assert server.serial() != before


@test
def a_renewed_certificate_is_served_without_a_restart():
    make_certificate("renewed")
    shutil.copy(WORK / "live.pem", WORK / "kept.pem")
    shutil.copy(WORK / "live.key", WORK / "kept.key")
    try:
        renew()
    finally:
        os.replace(WORK / "kept.pem", WORK / "live.pem")
        os.replace(WORK / "kept.key", WORK / "live.key")


def client_of(server, **headers):
    """The client that is in the log, for a request with these headers."""
    before = len(server.lines("request"))
    _, answer, _ = server.ask("/healthz", tls=False, **headers)
    until = time.monotonic() + PATIENCE
    while len(server.lines("request")) <= before:
        assert time.monotonic() < until
        time.sleep(0.02)
    return server.lines("request")[-1]["client"], answer["Strict-Transport-Security"] is not None


@test
def only_a_trusted_proxy_speaks_for_its_clients():
    forged = {"X_Forwarded_For": "203.0.113.9", "X_Forwarded_Proto": "https"}
    url = {"HELMR_PUBLIC_URL": "https://helmr.example.test"}
    with Server("proxied", tls=False, HELMR_TRUSTED_PROXIES="127.0.0.0/8,::1", **url) as server:
        assert client_of(server) == ("127.0.0.1", False)
        assert client_of(server, **forged) == ("203.0.113.9", True)
        assert client_of(server, X_Forwarded_For="192.0.2.1, 203.0.113.9")[0] == "203.0.113.9"
        assert client_of(server, X_Forwarded_For="203.0.113.9, 127.0.0.1")[0] == "203.0.113.9"
    with Server("proxied", tls=False, HELMR_TRUSTED_PROXIES="192.0.2.0/24", **url) as server:
        assert client_of(server, **forged) == ("127.0.0.1", False)
    with Server("proxied", tls=False) as server:
        assert client_of(server, **forged) == ("127.0.0.1", False)


@test
def sslscan_finds_nothing_weak():
    if not shutil.which("sslscan"):
        raise Skip("sslscan is not installed")
    with Server("scanned") as server:
        subprocess.run(["sslscan", "--no-colour", f"--xml={WORK / 'scan.xml'}",
                        f"localhost:{server.port}"], check=True, capture_output=True, timeout=180)
    found = xml.etree.ElementTree.parse(WORK / "scan.xml").find("ssltest")
    spoken = {f"{row.get('type')}{row.get('version')}" for row in found.iter("protocol")
              if row.get("enabled") == "1"}
    assert spoken == {"tls1.2", "tls1.3"}, spoken
    assert not [row for row in found.iter("heartbleed") if row.get("vulnerable") != "0"]
    assert not [row for row in found.iter("compression") if row.get("supported") != "0"]
    assert not [row for row in found.iter("renegotiation")
                if row.get("supported") == "1" and row.get("secure") != "1"]
    ciphers = list(found.iter("cipher"))
    assert len(ciphers) >= 5
    weak = [row.get("cipher") for row in ciphers if row.get("strength") not in ("strong", "acceptable")]
    assert not weak, weak


@test
def testssl_has_no_high_finding():
    program = shutil.which("testssl") or shutil.which("testssl.sh")
    if not program:
        raise Skip("testssl.sh is not installed")
    with Server("tested") as server:
        subprocess.run([program, "--quiet", "--color", "0", "--warnings", "off", "--protocols",
                        "--std", "--server-defaults", "--headers", "--vulnerable", "--add-ca",
                        WORK / "ca.pem", "--jsonfile", WORK / "testssl.json",
                        f"localhost:{server.port}"],
                       capture_output=True, timeout=400, stdin=subprocess.DEVNULL)
    rows = json.loads((WORK / "testssl.json").read_text())
    assert len(rows) > 50, f"only {len(rows)} findings"
    bad = [(row["id"], row["finding"]) for row in rows
           if row["severity"] in ("HIGH", "CRITICAL", "FATAL")]
    assert not bad, bad
    assert {row["id"]: row["severity"] for row in rows}["TLS1_3"] == "OK"


def main():
    try:
        make_authority()
        make_certificate("live")
        make_certificate("other")
        return run_tests()
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


sys.exit(main())
