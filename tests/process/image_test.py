#!/usr/bin/env python3
"""The image commands as processes on a store of their own: image_test.py HELMR

TAP on stdout. No server runs here. Images are written into the store as any OCI tool would do it,
so nothing needs privileges but what unpacks.
"""
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import pty
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

from tap import Skip, run_tests, test

HELMR = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(prefix="helmr-image-cli-"))
DATA = WORK / "data"
OCI = DATA / "worker/oci"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
NAME = "org.opencontainers.image.ref.name"


def environment():
    keep = {name: value for name, value in os.environ.items()
            if not name.startswith("HELMR_") and name not in ("HOME", "DOCKER_CONFIG")}
    return {**keep, "HELMR_DATA_DIR": str(DATA), "HOME": str(WORK), "TMPDIR": str(WORK)}


def helmr(*args, binary=False):
    return subprocess.run([HELMR, "image", *args], env=environment(), cwd=WORK, timeout=120,
                          stdin=subprocess.DEVNULL, text=not binary, capture_output=True)


def works(*args):
    done = helmr(*args)
    assert done.returncode == 0, f"{args}: exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def fails(*args, says):
    done = helmr(*args)
    assert done.returncode == 1, f"{args}: exit {done.returncode}, not 1: {done.stdout}"
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("helmr: ") and says in last, f"{last!r} does not say {says!r}"


def on_terminal(*args, answer=None):
    """Exit code and text when all descriptors are a terminal; the answer is typed at once."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(WORK)
        os.execve(HELMR, [HELMR, "image", *args], environment())
    if answer:
        os.write(terminal, answer.encode())
    text = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text.decode().replace("\r\n", "\n")


def put_blob(content):
    name = hashlib.sha256(content).hexdigest()
    (OCI / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    (OCI / "blobs/sha256" / name).write_bytes(content)
    return {"digest": f"sha256:{name}", "size": len(content)}


def put_layer(**files):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    packed = gzip.compress(plain.getvalue(), mtime=0)
    kind = "application/vnd.oci.image.layer.v1.tar+gzip"
    diff = f"sha256:{hashlib.sha256(plain.getvalue()).hexdigest()}"
    return {"mediaType": kind, **put_blob(packed)}, diff


def put_image(reference, layers, history):
    """Adds an image to index.json; layers is a list of (descriptor, diff_id)."""
    config = {"architecture": ARCH, "os": "linux", "created": "2026-01-02T03:04:05Z",
              "config": {"Env": ["PATH=/bin", "TOKEN=unseen"], "WorkingDir": "/srv", "User": "nobody"},
              "rootfs": {"type": "layers", "diff_ids": [diff for _, diff in layers]},
              "history": history}
    described = {"mediaType": "application/vnd.oci.image.config.v1+json",
                 **put_blob(json.dumps(config).encode())}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": described, "layers": [layer for layer, _ in layers]}
    row = {"mediaType": manifest["mediaType"], **put_blob(json.dumps(manifest).encode()),
           "annotations": {NAME: reference}}
    index = OCI / "index.json"
    rows = json.loads(index.read_text())["manifests"] if index.exists() else []
    rows = [other for other in rows if other["annotations"][NAME] != reference] + [row]
    index.write_text(json.dumps({"schemaVersion": 2, "manifests": rows}))
    return row["digest"]


BASE = "docker.io/library/base:1"
BUILT = "helmr.local/demo/agent:20260101.1"


def fresh():
    """A store with a base, and a deployment's image on top of it."""
    shutil.rmtree(DATA, ignore_errors=True)
    base, top = put_layer(a="one"), put_layer(b="two")
    said = [{"created_by": "ADD base"}]
    return (put_image(BASE, [base], said),
            put_image(BUILT, [base, top], said + [{"created_by": "ENV A=1", "empty_layer": True},
                                                  {"created_by": "RUN make\tit"}]))


def blobs():
    return sorted(os.listdir(OCI / "blobs/sha256"))


def age():
    """As if nothing had been used lately: what is used in this moment is not collected."""
    for folder in ("blobs/sha256", "unpacked", "steps"):
        for path in (OCI / folder).rglob("*"):
            os.utime(path, (time.time() - 3600,) * 2)


@test
def list_tells_who_uses_an_image():
    base, built = fresh()
    rows = [line.split("\t") for line in works("list").splitlines()]
    assert [row[0] for row in rows] == [BASE, BUILT], rows
    assert [row[1] for row in rows] == [base, built], rows
    assert all(row[2].isdigit() for row in rows), rows
    assert [row[3] for row in rows] == ["demo/agent:20260101.1"] * 2, rows
    found = json.loads(works("list", "--json"))["images"]
    assert found[0]["used_by"] == ["demo/agent:20260101.1"] and found[0]["digest"] == base
    assert [json.loads(line)["reference"] for line in works("list", "--jsonl").splitlines()] == [
        BASE, BUILT]
    code, text = on_terminal("list")
    assert code == 0 and text.splitlines()[0].split() == ["REFERENCE", "DIGEST", "SIZE", "USED", "BY"]
    assert base[:19] in text and base not in text and "KiB" in text, text


@test
def show_tells_what_made_each_layer_and_no_values():
    base, built = fresh()
    text = works("show", BUILT)
    rows = [line.split("\t") for line in text.splitlines()]
    assert ["digest", built] in rows and ["platform", f"linux/{ARCH}"] in rows, rows
    assert ["workdir", "/srv"] in rows and ["user", "nobody"] in rows, rows
    assert ["env", "PATH TOKEN"] in rows and "unseen" not in text, rows
    layers = [row for row in rows if row[0].startswith("sha256:")]
    assert [row[3] for row in layers] == ["ADD base", "RUN make?it"], layers
    assert [row[2] for row in layers] == ["no", "no"], layers
    found = json.loads(works("show", built, "--json"))
    assert found["reference"] is None and found["env"] == ["PATH", "TOKEN"], found
    assert [layer["step"] for layer in found["layers"]] == ["ADD base", "RUN make\tit"], found
    assert found["created_at"] == "2026-01-02T03:04:05.000Z", found
    assert json.loads(works("show", "base:1", "--json"))["digest"] == base
    fails("show", "nothing:1", says="docker.io/library/nothing:1 is not in the local image store")
    code, text = on_terminal("show", "base:1")
    assert code == 0 and "LAYER" in text and "UNPACKED" in text, text


@test
def export_writes_an_archive_or_nothing():
    base, _ = fresh()
    works("export", "base:1", "base.tar")
    with tarfile.open(WORK / "base.tar") as tar:
        index = json.load(tar.extractfile("index.json"))
        assert index["manifests"][0]["digest"] == base
        assert len([name for name in tar.getnames() if name.startswith("blobs/sha256/")]) == 3
    piped = helmr("export", "base:1", "-", binary=True)
    assert piped.returncode == 0 and piped.stdout == (WORK / "base.tar").read_bytes()
    fails("export", "nothing:1", "none.tar", says="not in the local image store")
    fails("export", "base:1", "no/such/folder.tar", says="No such file or directory")
    code, text = on_terminal("export", "base:1", "-")
    assert code == 1 and "redirect it" in text, text
    layer = OCI / "blobs/sha256" / json.loads(works("show", "base:1", "--json"))["layers"][0]["digest"][7:]
    layer.write_bytes(layer.read_bytes()[::-1])
    fails("export", "base:1", "none.tar", says="is damaged")
    assert sorted(path.name for path in WORK.glob("*.tar*")) == ["base.tar"]


@test
def other_tools_load_an_export():
    fresh()
    if not shutil.which("skopeo"):
        raise Skip("skopeo is not installed")
    works("export", BUILT, "agent.tar")
    subprocess.run(["skopeo", "copy", "-q", f"oci-archive:agent.tar:{BUILT}", "dir:agent"],
                   check=True, cwd=WORK, env=environment())
    assert len(list((WORK / "agent").iterdir())) == 5
    os.remove(WORK / "agent.tar")


@test
def bootstrap_takes_an_archive_of_another_host():
    base, _ = fresh()
    works("export", "base:1", "base.tar")
    shutil.rmtree(DATA)
    told = f"node:24-bookworm-slim\t{base}\n"
    assert works("bootstrap", "node:24-bookworm-slim", "--from", "base.tar") == told
    assert works("verify").startswith("ok\t")
    # What is there stays, unless it is told to go.
    assert works("bootstrap", "node:24-bookworm-slim", "--from", "no/such.tar") == told
    fails("bootstrap", "--from", "no/such.tar", "--force", says="no/such.tar: No such file")
    (WORK / "cut.tar").write_bytes((WORK / "base.tar").read_bytes()[:2000])
    shutil.rmtree(DATA)
    fails("bootstrap", "--from", "cut.tar", says="cut.tar: ")
    assert works("list") == ""
    os.remove(WORK / "base.tar")
    os.remove(WORK / "cut.tar")


@test
def rm_refuses_what_a_deployment_needs_and_asks_about_the_rest():
    fresh()
    age()
    before = blobs()
    fails("rm", BUILT, "--yes", says="deployment demo/agent:20260101.1 needs this image")
    fails("rm", "base:1", says="Say so with --yes")
    fails("rm", "base:2", "--yes", says="not in the local image store")
    code, text = on_terminal("rm", "base:1", answer="n\n")
    assert code == 1 and "Remove docker.io/library/base:1" in text and blobs() == before, text
    assert works("rm", "base:1", "--yes") == "removed docker.io/library/base:1\n"
    # Manifest and configuration of the base went; its layer is the deployment's too.
    assert len(blobs()) == len(before) - 2, blobs()
    assert works("list").startswith(BUILT)
    works("verify")


@test
def prune_says_what_it_frees_and_removes_it_when_told():
    fresh()
    put_blob(b"nobody's")
    assert works("list") and (OCI / "steps").is_dir()
    (OCI / "steps/p").mkdir()
    kept = put_blob(b"of a step")
    (OCI / "steps/p/a.json").write_text(json.dumps({"format": 1, "has_layer": True, **kept}))
    age()
    before = blobs()
    done = helmr("prune")
    assert done.returncode == 1 and "1 blobs" in done.stdout and "--yes" in done.stderr, done
    assert blobs() == before
    code, text = on_terminal("prune", answer="n\n")
    assert code == 1 and blobs() == before, text
    assert "freed" in works("prune", "--yes") and len(blobs()) == len(before) - 1
    assert works("prune", "--yes") == "nothing to remove\n"
    gone = json.loads(works("prune", "--all", "--yes", "--json"))
    assert gone["removed"] and gone["blobs"] == 1 and gone["steps"] == 1, gone
    assert len(blobs()) == len(before) - 2 and "ok\t2 references" in works("verify")


@test
def verify_names_damage_and_its_cure():
    base, _ = fresh()
    assert works("verify").startswith("ok\t2 references, 6 blobs, ")
    assert json.loads(works("verify", "--json"))["ok"] is True
    code, text = on_terminal("verify")
    assert code == 0 and "MiB\r" in text.replace("\033[K", "\r"), text
    layer = json.loads(works("show", "base:1", "--json"))["layers"][0]["digest"]
    path = OCI / "blobs/sha256" / layer[7:]
    path.write_bytes(path.read_bytes()[:-1])
    done = helmr("verify")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 1 and all(row[0] == "damaged" for row in rows), rows
    assert any(row[1] == layer and "--repair" in row[3] for row in rows), rows
    found = json.loads(helmr("verify", "--json").stdout)
    assert found["ok"] is False and found["n_problems"] == len(found["problems"]), found
    assert helmr("verify", "--repair").returncode == 1 and not path.exists()
    done = json.loads(works("verify", "--json"))
    # The base is to be pulled again; the deployment's layer comes from the server.
    assert done["references"] == 1 and done["absent"] == 1, done
    (OCI / "index.json").write_text("{")
    done = helmr("verify")
    assert done.returncode == 1 and "damaged\tindex.json\t" in done.stdout, done
    fails("list", says="index.json")


@test
def killed_at_any_moment_it_leaves_a_sound_store():
    fresh()
    before = None
    for number in range(24):
        command = [("prune", "--all", "--yes"), ("export", BUILT, "killed.tar"),
                   ("verify", "--repair"), ("rm", "base:1", "--yes")][number % 4]
        if command[0] in ("prune", "rm"):
            fresh()
            for extra in range(40):
                put_blob(b"%d" % extra)
            age()
        process = subprocess.Popen([HELMR, "image", *command], env=environment(), cwd=WORK,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=random.uniform(0, 0.02))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        before = json.loads(works("verify", "--json"))
        assert before["ok"] and before["absent"] == 0 and before["leftovers"] == 0, before
        archive = WORK / "killed.tar"
        if archive.exists():
            with tarfile.open(archive) as tar:
                assert len(tar.getnames()) == 8
            archive.unlink()
    for path in WORK.glob("killed.tar*"):
        path.unlink()


@test
def pull_and_push_go_through_a_registry():
    base, built = fresh()
    program = shutil.which("docker-registry")
    if not program:
        raise Skip("docker-registry is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (WORK / "registry.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {WORK}/registry}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n")
    registry = subprocess.Popen([program, "serve", WORK / "registry.yml"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the registry does not start"
        there = f"127.0.0.1:{port}/demo/agent:1"
        assert works("push", BUILT, there) == f"{there}\t{built}\n"
        shutil.rmtree(DATA)
        assert works("pull", there) == f"{there}\t{built}\n"
        assert works("list").split("\t")[:2] == [there, built]
        assert works("verify").startswith("ok\t1 references")
        fails("pull", f"127.0.0.1:{port}/demo/none:1", says="none:1")
        fails("push", "nothing:1", there, says="not in the local image store")
    finally:
        registry.terminate()
        registry.wait()
    fails("pull", there, says=str(port))


@test
def what_is_no_use_of_a_command_is_said():
    for command in ("show", "export", "push", "pull", "rm"):
        done = helmr(command)
        assert done.returncode != 0 and f"helmr image {command} --help" in done.stderr, done
        text = works(command, "--help")
        assert f"  helmr image {command} " in text, f"{command} --help has no example"


def main():
    try:
        return run_tests()
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
