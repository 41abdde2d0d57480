#!/usr/bin/env python3
"""Start a microVM and speak with the agent in it: smoke.py FOLDER

FOLDER holds what `make vm` makes. With KVM where a guest really comes up with it, without otherwise. Prints
what was done; the exit code is 0 only when the agent answered and the machine ended as it was told.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

PROTOCOL = 1
HELLO, WELCOME, PING, PONG, SHUTDOWN, DONE = 1, 2, 4, 5, 60, 61
U32, U64, BYTES, TEXT = 1, 2, 3, 4
KVM_SECONDS, TCG_SECONDS = 20, 300


class Failed(Exception):
    pass


def field(number, kind, value):
    if kind == U32:
        return struct.pack("<BBI", number, kind, value)
    if kind == U64:
        return struct.pack("<BBQ", number, kind, value)
    return struct.pack("<BBI", number, kind, len(value)) + value


def fields_of(body):
    found, at = {}, 0
    while at < len(body):
        number, kind = body[at], body[at + 1]
        size = {U32: 4, U64: 8}.get(kind)
        if size:
            found[number] = int.from_bytes(body[at + 2:at + 2 + size], "little")
            at += 2 + size
        else:
            size, = struct.unpack_from("<I", body, at + 2)
            found[number] = body[at + 6:at + 6 + size]
            at += 6 + size
    return found


class Channel:
    """Frames as in src/protocol: length, type, flags, stream, then the body."""

    def __init__(self, end, seconds):
        self.end, self.until = end, time.monotonic() + seconds

    def send(self, kind, *body):
        data = b"".join(body)
        self.end.sendall(struct.pack("<IBBH", len(data), kind, 0, 0) + data)

    def read(self, size):
        data = b""
        while len(data) < size:
            self.end.settimeout(max(0.01, self.until - time.monotonic()))
            piece = self.end.recv(size - len(data))
            if not piece:
                raise Failed("the machine ended before it had answered")
            data += piece
        return data

    def expect(self, wanted):
        size, kind, _, _ = struct.unpack("<IBBH", self.read(8))
        body = self.read(min(size, 1 << 20))
        if kind != wanted:
            raise Failed(f"a message {kind} came where {wanted} was due")
        return fields_of(body)


def tsc_khz():
    found = re.search(r"^cpu MHz\s*: ([\d.]+)", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return int(float(found[1]) * 1000) if found else 0


def command(folder, accel, channel):
    words = ["quiet", "panic=-1", "reboot=t", "tsc=reliable", "nowatchdog"]
    if accel == "tcg":
        words += ["no_timer_check", f"tsc_early_khz={tsc_khz()}"]
    return ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-M", "microvm,acpi=on,rtc=on,isa-serial=off", "-accel", accel,
            "-cpu", "host" if accel == "kvm" else "max", "-m", "256",
            "-kernel", folder / "kernel", "-initrd", folder / "initrd", "-append", " ".join(words),
            "-device", "virtio-serial-device", "-chardev", f"socket,id=channel,fd={channel}",
            "-device", "virtserialport,chardev=channel,name=helmr.channel",
            "-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-device,rng=random"]


def talk(channel, begun):
    hello = channel.expect(HELLO)
    print(f"smoke: the agent said hello after {time.monotonic() - begun:.1f} s: Linux {hello[7].decode()} on "
          f"{hello[6].decode()}, interface {hello[2]}, agent {hello[3].hex()[:16]}")
    channel.send(WELCOME, field(1, U32, PROTOCOL), field(2, TEXT, b"smoke"), field(3, U64, 1), field(5, U64, 1),
                 field(6, U64, 1))
    channel.send(PING, field(1, U64, 7), field(2, U64, 60000), field(3, U64, time.time_ns()))
    pong = channel.expect(PONG)
    if pong[1] != 7:
        raise Failed("the answer belongs to another question")
    print(f"smoke: it answers; {pong.get(3, 0) >> 10} MiB of its memory are in use")
    channel.send(SHUTDOWN, field(1, U64, 9), field(2, U64, 1000))
    channel.expect(DONE)


def start(folder, accel, seconds):
    ours, theirs = socket.socketpair()
    os.set_inheritable(theirs.fileno(), True)
    begun = time.monotonic()
    machine = subprocess.Popen(command(folder, accel, theirs.fileno()), pass_fds=[theirs.fileno()],
                               stderr=subprocess.PIPE)
    theirs.close()
    try:
        talk(Channel(ours, seconds), begun)
        code = machine.wait(60)
        if code:
            raise Failed(f"qemu ended with {code}")
        print("smoke: told to end, the machine ended")
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        machine.kill()
        said = machine.communicate()[1].decode(errors="replace").strip().splitlines()
        raise Failed(f"{error or 'no answer in time'}" + (f" ({said[-1]})" if said else "")) from None


def check_files(folder):
    artefacts = json.loads((folder / "artefacts.json").read_text())
    for name in ("kernel", "initrd"):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if digest != artefacts[name]:
            raise Failed(f"{name} is not the file that artefacts.json names")
        print(f"smoke: {name} sha256:{digest}")


def main():
    folder = pathlib.Path(sys.argv[1])
    try:
        if not shutil.which("qemu-system-x86_64"):
            raise Failed("qemu-system-x86_64 is not installed")
        check_files(folder)
        if os.access("/dev/kvm", os.R_OK | os.W_OK):
            try:
                start(folder, "kvm", KVM_SECONDS)
                print("smoke: a microVM was started with KVM")
                return
            except Failed as error:
                print(f"smoke: KVM is there, but no guest came up with it: {error}")
        start(folder, "tcg", TCG_SECONDS)
        print("smoke: a microVM was started without KVM")
    except Failed as error:
        sys.exit(f"smoke: {error}")


main()
