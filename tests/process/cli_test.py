#!/usr/bin/env python3
"""The command line as a process against a real server: cli_test.py HELMR [--update]

TAP on stdout. No worker runs here, so nothing needs privileges. --update rewrites the golden
text of every --help.
"""
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import termios
import time

from tap import Skip, run_tests, test

HELMR = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/help.txt"
WORK = pathlib.Path(tempfile.mkdtemp(prefix="helmr-cli-"))
ID = "01981f4e-0000-7000-8000-000000000000"


def environment(**more):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HELMR_")}
    keep.update({"HELMR_CONFIG_DIR": str(WORK / "config"), **more})
    return {name: value for name, value in keep.items() if value is not None}


def helmr(*args, env=None, cwd=None, data=None):
    return subprocess.run([HELMR, *args], env=env or environment(), cwd=cwd or WORK, input=data,
                          stdin=None if data is not None else subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=60)


def works(*args, **options):
    done = helmr(*args, **options)
    assert done.returncode == 0, f"{args}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def fails(*args, says, **options):
    done = helmr(*args, **options)
    assert done.returncode == 1, f"{args}: exit {done.returncode}, not 1: {done.stderr}"
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("helmr: "), last
    assert says in last, f"{last!r} does not say {says!r}"
    return done


def on_terminal(*args, **more):
    """What the command prints when all of its descriptors are a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        hear_signals()
        os.chdir(WORK)
        os.execve(HELMR, [HELMR, *args], environment(**more))
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
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), text.decode().replace("\r\n", "\n")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Up:
    """`helmr up --no-worker`, waited for by the lines it prints."""

    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = WORK / "data"
        self.log = open(WORK / "up.log", "w")
        self.process = subprocess.Popen(
            [HELMR, "up", "--data-dir", self.data, "--addr", f"127.0.0.1:{self.port}",
             "--no-worker"],
            env=environment(), cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.log, text=True)
        self.lines = [self.process.stdout.readline().strip() for _ in range(2)]

    def children(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return [int(pid) for task in tasks.iterdir()
                for pid in (task / "children").read_text().split()]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


up = None


def project(name, **files):
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, text in files.items():
        (folder / path.replace("__", ".")).write_text(text)
    return folder


def ready_project(name):
    return project(name, helmr__config__ts='export default { project: "none", dirs: ["."] };',
                   package__json="{}", task__ts=f"// {name}")


def all_commands():
    overview = works("--help")
    listed = overview[overview.index("Commands:\n") + 10:].split("\n\n")[0]
    names = []
    for line in listed.splitlines():
        words = line.strip().split("  ")[0].split()
        names.append([word for word in words if re.fullmatch("[a-z]+", word)])
    return names


@test
def every_help_is_the_one_that_was_agreed_on():
    text = "$ helmr --help\n" + works("--help")
    for name in all_commands():
        text += f"\n$ helmr {' '.join(name)} --help\n" + works(*name, "--help")
    if "--update" in sys.argv:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    want = GOLDEN.read_text()
    if text != want:
        pairs = zip(text.splitlines() + [""], want.splitlines() + [""])
        got_line, want_line = next((pair for pair in pairs if pair[0] != pair[1]), ("?", "?"))
        raise AssertionError(f"got {got_line!r}, want {want_line!r}; if it is meant: "
                             f"tests/process/cli_test.py HELMR --update")


@test
def every_command_has_an_example():
    for name in all_commands():
        assert f"  helmr {name[0]}" in works(*name, "--help") or \
            f"helmr {' '.join(name)}" in works(*name, "--help").split("Options:")[0][20:], name


# Those that run until they are stopped, and those whose output is a file of another form.
WITHOUT_JSON = {"up", "server", "worker", "completion", "man", "image export"}


@test
def what_is_printed_can_be_had_as_json():
    for name in all_commands():
        text = works(*name, "--help")
        assert ("--json " in text) != (" ".join(name) in WITHOUT_JSON), name
        assert name[-1] != "list" or "--jsonl " in text, name


@test
def the_version_is_bare():
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", works("--version"))


@test
def a_group_alone_lists_what_is_in_it():
    text = works("key", "--help")
    assert "key create NAME" in text and "deploy" not in text
    fails("key", says="a sub-command is missing after key")


@test
def a_wrong_word_is_answered_by_the_nearest_right_one():
    fails("depoly", says="no such command: depoly; did you mean `helmr deploy`?")
    fails("xyzzy", says="no such command: xyzzy")
    fails("ps", "--jsno", says="no such option: --jsno; see helmr ps --help")
    fails("show", says="missing argument: RUN")
    fails(says="no command given")


@test
def completion_scripts_are_valid():
    for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]),
                         ("fish", ["fish", "--no-execute"])):
        script = WORK / f"completion.{shell}"
        script.write_text(works("completion", shell))
        assert "deploy" in script.read_text()
        if shutil.which(check[0]):
            subprocess.run([*check, script], check=True)
    fails("completion", "csh", says="no completion for csh: bash, zsh or fish")


# Words on a command line, the last of them unfinished, and what a shell offers for it.
COMPLETIONS = [
    (["deployment", "pro"], ["promote"]),
    (["run", "x", "--fol"], ["--follow"]),
    (["-p", "main", "session", "stream", "in"], ["input"]),
    (["session", "stream", "input", "s"], ["send"]),
    (["run", "list", "--status", "succ"], ["succeeded"]),
    (["up", "--engine", "q"], ["qemu"]),
    (["key", "create", "x", "--permission", "tasks:"], ["tasks:deploy"]),
    (["completion", "f"], ["fish"]),
    (["doctor", "--no-such"], []),
]


def in_shell(shell, script):
    if not shutil.which(shell):
        raise Skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, cwd=WORK,
                          env=environment(HOME=str(WORK)))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@test
def bash_completes_commands_options_and_values():
    script = works("completion", "bash")
    for words, want in COMPLETIONS:
        asked = f"COMP_WORDS=(helmr {' '.join(words)}) COMP_CWORD={len(words)}; _helmr; " \
                'printf "%s\\n" "${COMPREPLY[@]}"'
        assert [line for line in in_shell("bash", script + asked) if line] == want, words


@test
def zsh_completes_commands_options_and_values():
    # What compadd is given is what zsh chooses from by the word begun.
    script = "compdef() { }; compset() { }; _files() { }; " \
             'compadd() { print -l -- "${@[2,-1]}" }\n' + works("completion", "zsh")
    for words, want in COMPLETIONS:
        asked = f"\nwords=(helmr {' '.join(words)}); CURRENT={len(words) + 1}; _helmr"
        offered = [word for word in in_shell("zsh", script + asked) if word.startswith(words[-1])]
        assert offered == want, (words, offered)


@test
def fish_completes_commands_options_and_values():
    file = WORK / "helmr.fish"
    file.write_text(works("completion", "fish"))
    for words, want in COMPLETIONS:
        lines = in_shell("fish", f"source {file}; complete -C 'helmr {' '.join(words)}'")
        assert [line.split("\t")[0] for line in lines] == want, (words, lines)


@test
def every_command_has_a_manual_page_without_a_fault():
    folder = WORK / "man"
    assert works("man", str(folder)) == ""
    pages = sorted(page.name for page in folder.iterdir())
    assert pages == sorted(["helmr.1"] + [f"helmr-{'-'.join(name)}.1" for name in all_commands()])
    assert works("man") == (folder / "helmr.1").read_text()
    checks = [["groff", "-man", "-ww", "-Tutf8", "-z"], ["mandoc", "-T", "lint", "-W", "error"]]
    installed = [check for check in checks if shutil.which(check[0])]
    if not installed:
        raise Skip("neither groff nor mandoc is installed")
    for check in installed:
        done = subprocess.run([*check, *map(str, sorted(folder.iterdir()))], capture_output=True,
                              text=True)
        assert done.returncode == 0 and not done.stderr + done.stdout, done
    fails("man", "/dev/null/x", says="/dev/null is there and is no directory")


@test
def a_group_of_two_words_lists_what_is_in_it():
    text = works("session", "stream", "--help")
    assert "session stream input send" in text and "session start" not in text, text


@test
def without_a_server_the_next_step_is_named():
    url = f"http://127.0.0.1:{free_port()}"
    fails("ps", "-a", url, says=f"no login for {url}: start `helmr up`")
    fails("ps", env=environment(HELMR_API_KEY="hlmr_sk_x", HELMR_API_URL=url),
          says=f"cannot reach {url}: is `helmr up` running?")
    fails("key", "list", env=environment(HELMR_API_KEY="hlmr_sk_x", HELMR_API_URL=url),
          says="this needs a login")


@test
def a_key_never_travels_in_clear_text():
    fails("ps", env=environment(HELMR_API_KEY="hlmr_sk_x", HELMR_API_URL="http://192.0.2.1:1"),
          says="refusing to send a key in clear text")
    fails("ps", "-a", "localhost:3000", says="it starts with http:// or https://")


@test
def up_gives_up_when_its_server_cannot_start():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = fails("up", "--data-dir", str(WORK / "taken"), "--addr", address, "--no-worker",
                     says="the server did not start")
    assert "Address already in use" in done.stderr, done.stderr
    fails("up", "--addr", "127.0.0.1", "--data-dir", str(WORK / "taken"), says="HOST:PORT")


@test
def up_says_where_it_is_and_saves_a_login():
    global up
    up = Up()
    assert up.lines == [f"console: {up.url}/dev/login", "engine: none (no worker was asked for)"]
    for name, mode in (("", 0o700), ("config.toml", 0o600), ("credentials.toml", 0o600)):
        assert stat.S_IMODE((WORK / "config" / name).stat().st_mode) == mode, name
    assert (WORK / "config/config.toml").read_text() == f'default_host = "{up.url}"\n'
    assert works("ps") == ""


@test
def a_second_up_on_the_directory_is_refused():
    fails("up", "--data-dir", str(up.data), "--addr", f"127.0.0.1:{free_port()}",
          says="another `helmr up` runs on")


@test
def lists_have_a_header_on_a_terminal_and_tabs_in_a_pipe():
    code, text = on_terminal("ps")
    assert code == 0 and text.split() == ["RUN", "ID", "TASK", "STATUS", "WAIT", "CREATED"], text
    works("key", "create", "shown", "--permission", "runs:read", "--expires-in-days", "30")
    line = works("key", "list").splitlines()[0].split("\t")
    assert len(line) == 6 and line[1] == "shown" and line[3] == "active", line
    code, text = on_terminal("key", "list")
    assert text.splitlines()[0].startswith("ID ") and "\t" not in text, text


@test
def a_key_works_until_it_is_revoked():
    raw = works("key", "create", "ci", "--permission", "runs:read", "--permission",
                "tasks:deploy").strip()
    assert re.fullmatch(r"hlmr_sk_[A-Za-z0-9_-]{43}", raw), raw
    keyed = environment(HELMR_API_KEY=raw)
    assert works("ps", env=keyed) == ""
    assert works("ps", "-p", "main", "-e", "production", env=keyed) == ""
    fails("ps", "-e", "staging", env=keyed, says="the API key does not belong to environment")
    fails("ps", "-p", "other", env=keyed, says="the API key does not belong to project other")
    fails("run", "x", env=keyed, says="runs:create is required (permission_required)")
    keys = json.loads(works("key", "list", "--json"))["api_keys"]
    ours = next(key for key in keys if key["name"] == "ci")
    assert ours["permissions"] == [{"scopes": ["runs:read", "tasks:deploy"]}], ours
    fails("key", "revoke", ours["id"], says="Say so with --yes")
    assert works("key", "revoke", ours["id"], "--yes") == f"{ours['id']} revoked\n"
    fails("ps", env=keyed, says="(authentication_required); check HELMR_API_KEY")
    assert ours["id"] not in works("key", "list")
    assert ours["id"] in works("key", "list", "--filter", "revoked")


@test
def a_key_may_not_make_keys_but_its_owner_may():
    raw = works("key", "create", "all", "--permission", "all", "--expires-in-days", "never").strip()
    # The saved login is used, whatever the variable says.
    works("key", "create", "more", "--permission", "runs:read",
          env=environment(HELMR_API_KEY=raw))
    fails("key", "create", "x", says="say what the key may do")
    fails("key", "create", "x", "--permission", "root", says="root is not a permission of keys")
    fails("key", "create", "x", "--permission", "all", "--expires-in-days", "7",
          says="must be 30, 90, 365 or never")


@test
def a_host_without_a_worker_has_no_status():
    assert works("worker", "list") == ""
    assert json.loads(works("worker", "list", "--json")) == {"workers": []}
    fails("worker", "status", says="the server knows no worker called ")
    fails("worker", "status", says="called elsewhere",
          env=environment(HELMR_WORKER_RESOURCE_ID="elsewhere"))


@test
def commands_in_workspaces_say_what_is_wrong():
    fails("workspace", "exec", ID, says="helmr workspace exec --help")
    fails("workspace", "exec", ID, "--", "true", says="(workspace_not_found)")
    fails("workspace", "exec", ID, "--set-env", "A", "--", "true", says="NAME=VALUE")
    fails("workspace", "exec", "list", ID, says="(workspace_not_found)")
    for verb in "get", "logs", "wait", "kill":
        fails("workspace", "exec", verb, ID, ID, says="(workspace_exec_not_found)")
    fails("workspace", "exec", "logs", ID, ID, "--cursor", "x", says="an offset in bytes")
    fails("workspace", "exec", "kill", ID, ID, "--signal", "STOP", says="TERM, KILL, INT or HUP")


@test
def projects_are_made_renamed_and_deleted():
    made = works("project", "create", "Web shop").rstrip("\n").split("\t")
    assert made[1:] == ["web-shop", "Web shop"], made
    assert "\t".join(made) in works("project", "list").splitlines()
    text = works("project", "get", made[0])
    assert "Slug: web-shop" in text and "Environments: production staging" in text, text
    fails("project", "create", "web shop", says="(slug_taken)")
    fails("project", "update", "web-shop", says="say what changes")
    renamed = works("project", "update", "web-shop", "--slug", "shop", "--name", "Shop")
    assert renamed == f"{made[0]}\tshop\tShop\n", renamed
    works("project", "update", "shop", "--default")
    fails("project", "delete", "shop", "--yes", says="(project_is_default)")
    works("project", "update", "main", "--default")
    fails("project", "delete", "shop", says="Say so with --yes")
    assert works("project", "delete", "shop", "--yes") == "shop deleted\n"
    fails("project", "get", "shop", says="(not_found)")


@test
def environments_are_made_changed_and_deleted():
    made = works("env", "create", "Preview", "--color", "#102030").rstrip("\n").split("\t")
    assert made[1:] == ["preview", "Preview", "#102030"], made
    assert [line.split("\t")[1] for line in works("env", "list").splitlines()] == \
        ["production", "staging", "preview"]
    fails("env", "create", "Preview", says="(slug_taken)")
    fails("env", "update", "preview", "--min-grade", "best", says="/min_grade must be")
    fails("env", "update", "preview", "--worker-group", "none", says="no worker group none")
    works("env", "update", "preview", "--min-grade", "user-kernel", "--slug", "pre")
    text = works("env", "get", "pre")
    assert "Least grade: user-kernel" in text and "Worker group: default" in text, text
    assert works("ps", "-e", "pre") == ""
    fails("env", "update", "staging", "--slug", "x", says="(environment_protected)")
    fails("env", "delete", "production", "--yes", says="(environment_protected)")
    works("project", "create", "Other")
    fails("env", "get", "pre", "-p", "other", says="(not_found)")
    works("env", "create", "Pre", "-p", "other")
    raw = works("key", "create", "k", "-p", "other", "-e", "pre", "--permission", "all").strip()
    assert works("ps", env=environment(HELMR_API_KEY=raw)) == ""
    assert works("env", "delete", "pre", "-p", "other", "--yes") == "pre deleted\n"
    fails("ps", env=environment(HELMR_API_KEY=raw), says="(authentication_required)")
    works("project", "delete", "other", "--yes")
    works("env", "delete", made[0], "--yes")


@test
def projects_and_environments_need_a_login():
    raw = works("key", "create", "k", "--permission", "all").strip()
    # The saved login is used, whatever the variable says.
    assert "main" in works("project", "list", env=environment(HELMR_API_KEY=raw))
    nobody = environment(HELMR_API_KEY=raw, HELMR_CONFIG_DIR=str(WORK / "nobody"),
                         HELMR_API_URL=up.url)
    fails("project", "list", env=nobody, says="this needs a login")
    fails("env", "list", env=nobody, says="this needs a login")


@test
def json_is_one_document_and_jsonl_one_object_a_line():
    for args in (["ps"], ["run", "list"], ["key", "list"], ["deployment", "list"],
                 ["task", "list"], ["secret", "list"], ["project", "list"], ["env", "list"],
                 ["token", "list"], ["sandbox", "list"], ["schedule", "list"], ["session", "list"],
                 ["session", "list", "--status", "all", "--task", "x", "--external-id", "y"]):
        document = json.loads(works(*args, "--json"))
        assert len(document) == 1 and isinstance(next(iter(document.values())), list), document
        for line in works(*args, "--jsonl").splitlines():
            assert isinstance(json.loads(line), dict)
    fails("ps", "--json", "--jsonl", says="exclude each other")
    assert json.loads(works("key", "create", "j", "--permission", "all", "--json"))["raw_key"]


@test
def what_is_not_there_is_an_error_with_its_code():
    fails("show", ID, says=f"there is no run {ID} (not_found)")
    fails("logs", ID, says="(not_found)")
    fails("logs", "--follow", ID, says="(not_found)")
    fails("events", "--follow", ID, says="(not_found)")
    fails("run", "wait", ID, says="(not_found)")
    fails("run", "cancel", "../../x", says="(not_found)")
    fails("task", "get", "hello", says="(task_not_found)")
    fails("deployment", "get", "20200101.1", says="(not_found)")
    fails("ps", "-p", "nowhere", says="there is no such project (not_found)")
    fails("ps", "-e", "nowhere", says="(not_found)")
    fails("ps", "--cursor", "x", says="(invalid_cursor)")
    fails("run", "hello", says="(no_current_deployment); deploy one first: helmr deploy PATH")


@test
def the_scope_is_the_flags_then_the_file_then_the_default():
    inside = project("inside", helmr__config__ts='export default { project: "main" };',
                     package__json="{}")
    assert works("ps", cwd=inside) == ""
    assert "note:" not in helmr("deploy", "--detach", cwd=inside).stderr
    assert len(works("deployment", "list", "-p", "main").splitlines()) == 1
    assert works("deployment", "list", "-p", "main", "-e", "staging", cwd=inside) == ""
    assert works("deployment", "list", "-e", "staging") == ""
    fails("ps", "-p", "nowhere", cwd=inside, says="there is no such project")


@test
def a_payload_is_checked_before_anything_is_sent():
    fails("run", "t", "--payload-json", "{", says="--payload-json: not valid JSON at line 1")
    fails("run", "t", "-p", "a=b", "--payload-json", "{}", says="--payload excludes")
    fails("run", "t", "--secret", "K=env:HOME", says="the only source is vault")
    fails("run", "t", "--timeout", "5m", says="--timeout needs --wait or --follow")
    fails("run", "t", "--json", "--follow", says="exclude each other")
    fails("run", "t", "--payload-file", "-", data='{"a":}', says="--payload-file: not valid JSON")
    # A good one reaches the server, which has no deployment.
    fails("run", "t", "--payload-file", "-", data='{"a":1}', says="no_current_deployment")
    fails("run", "--", "list", says="no_current_deployment")


@test
def deploy_names_the_file_that_is_missing_and_the_cure():
    fails("deploy", str(project("bare")), says="there is no helmr.config.ts in")
    half = project("half", helmr__config__mjs="export default {};")
    fails("deploy", str(half), says="there is no package.json beside helmr.config.mjs")
    fails("deploy", "/nonexistent", says="/nonexistent: No such file")
    whole = ready_project("whole")
    (whole / "build.env").write_text("HELMR_X=1\n")
    fails("deploy", str(whole), "--env-file", str(whole / "build.env"),
          says="HELMR_X: names that start with HELMR_ are taken")
    (whole / "build.env").write_text("A\n")
    fails("deploy", str(whole), "--env-file", str(whole / "build.env"), says="line 1")


@test
def a_detached_deploy_prints_its_version():
    folder = ready_project("detached")
    done = helmr("deploy", "--detach", cwd=folder)
    version = done.stdout.strip()
    assert done.returncode == 0 and re.fullmatch(r"\d{8}\.\d+", version), done
    says = done.stderr.splitlines()
    assert says[0] == "Preparing project"
    assert says[1] == "note: the server has no project none; using its default project"
    assert says[2:4] == ["Creating archive", "Uploading deployment"]
    assert re.fullmatch(r"Deployment [0-9a-f-]{36} queued", says[4]), says
    shown = works("deployment", "get", version)
    assert f"Version: {version}\nStatus: queued\n" in shown, shown

    lines = [json.loads(line) for line in
             works("deploy", str(folder), "--detach", "--json").splitlines()]
    assert [line["type"] for line in lines] == ["step"] * 3 + ["deployment_created",
                                                               "deployment_result"]
    # The same source is not built twice at once.
    assert lines[-1]["phase"] == "queued" and lines[-1]["deployment"]["version"] == version

    fails("deployment", "promote", version, says="(deployment_not_deployed)")
    assert "Status: failed" in works("deployment", "cancel", version, "--reason", "enough")
    fails("deployment", "cancel", version, says="(deployment_terminal)")
    assert version not in works("deployment", "list", "-e", "staging")


@test
def a_build_that_fails_is_explained():
    folder = ready_project("cancelled")
    process = subprocess.Popen([HELMR, "deploy", folder], env=environment(), cwd=WORK, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    said = ""
    while "queued" not in said:
        said += process.stderr.readline()
    identity = said.split("Deployment ")[1].split()[0]
    works("deployment", "cancel", identity, "--reason", "not today")
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 1 and out == "", (process.returncode, out)
    assert errors.splitlines()[-1] == "helmr: deployment build: not today", errors


@test
def a_build_that_takes_too_long_goes_on():
    folder = ready_project("slow")
    done = fails("deploy", str(folder), "--timeout", "500ms", says="has not ended in time")
    version = done.stderr.rsplit(" ", 1)[1].strip()
    assert "Status: queued" in works("deployment", "get", version)


@test
def an_interrupt_is_exit_code_130():
    folder = ready_project("interrupted")
    process = subprocess.Popen([HELMR, "deploy", folder], env=environment(), cwd=WORK, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    while "queued" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, process.returncode
    assert re.fullmatch(r"helmr: the build of (\S+) goes on: `helmr deployment get \1` shows it, "
                        r"`helmr deployment cancel \1` stops it, .*\n", errors), errors


@test
def progress_and_links_are_for_terminals():
    folder = ready_project("terminal")
    (folder / "data.bin").write_bytes(os.urandom(3 << 20))
    code, text = on_terminal("deploy", str(folder), "--detach")
    assert code == 0 and "100% of 3.0 MiB" in text, text
    code, text = on_terminal("deploy", str(folder), "--timeout", "300ms", TERM="dumb")
    assert code == 1 and "\x1b" not in text, text


COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@test
def a_build_on_a_terminal_is_drawn_and_the_cursor_comes_back():
    folder = ready_project("drawn")
    code, text = on_terminal("deploy", str(folder), "--timeout", "700ms", TERM="xterm", LANG="C")
    assert code == 1 and "waiting for a worker" in text, text
    assert text.count("\x1b[?25l") >= 2 and text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), text
    assert text.isascii() and "\n" not in text[text.rindex("\x1b[?25h") + 6:-1], text
    code, text = on_terminal("deploy", str(folder), "--timeout", "300ms", TERM="xterm",
                             NO_COLOR="1")
    assert code == 1 and not COLOUR.search(text), text


def hear_signals():
    """In a child: whoever runs the tests in the background has these ignored."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def interrupted_on_terminal(number, *args):
    """What the terminal shows of a command that gets a signal while it draws; its wait status."""
    pid, terminal = pty.fork()
    if pid == 0:
        hear_signals()
        os.chdir(WORK)
        os.execve(HELMR, [HELMR, *args], environment(TERM="xterm", LANG="C.UTF-8"))
    text = b""
    while text.count(b"\x1b[?25l") < 2:
        text += os.read(terminal, 65536)
    os.kill(pid, number)
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except OSError:
        pass
    os.close(terminal)
    return os.waitpid(pid, 0)[1], text.decode()


@test
def whatever_ends_a_deploy_gives_the_cursor_back_and_leaves_the_build():
    folder = ready_project("ended")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        status, text = interrupted_on_terminal(number, "deploy", str(folder))
        if number == signal.SIGINT:
            assert os.waitstatus_to_exitcode(status) == 130, status
        else:
            assert os.WTERMSIG(status) == number, status
        assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), text
        version = re.search(r"helmr: the build of (\S+) goes on: ", text)[1]
        assert f"`helmr deployment cancel {version}` stops it" in text, text
        assert "Status: queued" in works("deployment", "get", version)


@test
def a_deploy_that_is_stopped_gives_the_cursor_back_and_goes_on():
    pid, terminal = pty.fork()
    if pid == 0:
        hear_signals()
        os.chdir(WORK)
        os.execve(HELMR, [HELMR, "deploy", str(ready_project("stopped"))],
                  environment(TERM="xterm"))
    text = b""
    while text.count(b"\x1b[?25l") < 2:
        text += os.read(terminal, 65536)
    os.kill(pid, signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    os.set_blocking(terminal, False)
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except BlockingIOError:
        pass
    os.set_blocking(terminal, True)
    assert text.endswith(b"\x1b[J\x1b[?25h"), text
    os.kill(pid, signal.SIGCONT)
    while not text.endswith(b"\x1b[K\r\n\x1b[J") or text.rindex(b"?25h") > text.rindex(b"?25l"):
        text += os.read(terminal, 65536)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)


@test
def a_secret_is_stored_listed_and_never_shown():
    assert works("secret", "list") == ""
    assert works("secret", "set", "TOKEN", "first value") == "TOKEN\n"
    # A pipe is taken byte for byte, the newline at its end too.
    stored = json.loads(works("secret", "set", "PIPED", "--json", data="  two\nlines\n"))
    assert stored["name"] == "PIPED" and "value" not in stored, stored
    lines = [line.split("\t") for line in works("secret", "list").splitlines()]
    assert sorted(line[0] for line in lines) == ["PIPED", "TOKEN"], lines
    assert all(len(line) == 3 and line[1].endswith("Z") for line in lines), lines
    shown = works("secret", "get", "TOKEN")
    assert [line.split(":")[0] for line in shown.splitlines()] == \
        ["Name", "Project", "Environment", "Created", "Updated"], shown
    for args in (["secret", "get", "TOKEN", "--json"], ["secret", "list", "--json"],
                 ["secret", "list", "--jsonl"]):
        text = works(*args)
        assert "first value" not in text and "two" not in text, text
    assert works("secret", "list", "-e", "staging") == ""
    fails("secret", "get", "TOKEN", "-e", "staging", says="(secret_not_found)")


@test
def a_secret_is_deleted_only_when_somebody_says_so():
    fails("secret", "delete", "TOKEN", says="Say so with --yes")
    assert works("secret", "delete", "TOKEN", "--yes") == "TOKEN deleted\n"
    fails("secret", "get", "TOKEN", says="(secret_not_found)")
    fails("secret", "delete", "TOKEN", "--yes", says="(secret_not_found)")
    assert works("secret", "delete", "PIPED", "--yes", "--json") == \
        '{"name":"PIPED","status":"deleted"}\n'


def labels(text):
    return [line.split(":")[0] for line in text.splitlines()]


@test
def a_token_is_made_answered_and_shown():
    made = works("token", "create", "--timeout", "2h", "--tag", "a", "--tag", "b",
                 "--metadata-json", '{"prompt":"Ship it?"}')
    assert labels(made) == ["Token", "Status", "Timeout", "Callback", "PublicToken"], made
    token = made.splitlines()[0].split()[1]
    assert f"/api/v1/tokens/{token}/callback/" in made and "hlmr_pat_" in made, made
    lines = [line.split("\t") for line in works("token", "list", "--status", "pending").splitlines()]
    assert [line[0] for line in lines] == [token] and lines[0][3] == '["a","b"]', lines
    shown = works("token", "get", token)
    assert "hlmr_pat_" not in shown and 'Metadata: {"prompt":"Ship it?"}' in shown, shown
    done = works("token", "complete", token, "--data-json", '{"approved": true}')
    assert done == f"token_id: {token}\ntoken_status: completed\ncompletion_status: completed\n", done
    assert "already_completed" in works("token", "complete", token, "--data-json",
                                        '{"approved":true}')
    fails("token", "complete", token, "--data-json", "1", says="(token_completion_conflict)")
    assert 'Data: {"approved":true}' in works("token", "get", token)
    assert works("token", "list", "--status", "pending") == ""
    other = json.loads(works("token", "create", "--json"))
    assert works("token", "cancel", other["id"], "--reason", "late") == f"{other['id']} cancelled\n"
    fails("resume", "respond", other["id"], says="(token_cancelled)")


@test
def a_wait_is_answered_with_a_value_or_null():
    token = json.loads(works("token", "create", "--json"))["id"]
    fails("token", "complete", token, says="--data-json is required")
    fails("resume", "respond", token, "--value", "{approved:true}", says="--value: not valid JSON")
    assert works("resume", "respond", token) == ""
    assert json.loads(works("token", "get", token, "--json"))["data"] is None
    fails("resume", "respond", ID, says="(token_not_found)")


@test
def what_is_wrong_about_a_session_is_said():
    fails("session", "start", "hello", says="(no_current_deployment)")
    fails("session", "start", "hello", "--timeout", "5s", says="--timeout needs --wait or --follow")
    fails("session", "start", "hello", "--json", "--follow", says="exclude each other")
    fails("session", "start", "hello", "--secret", "A=env:A", says="the only source is vault")
    fails("session", "start", "hello", "--deployment", "x", says="no such option: --deployment")
    fails("session", "get", says="name the session by its id or by --external-id")
    fails("session", "get", ID, "--external-id", "x", says="by its id or by --external-id")
    for args in (["get", ID], ["get", "--external-id", "nobody & co"], ["close", ID], ["cancel", ID],
                 ["stream", "list", ID], ["stream", "input", "list", ID, "approval"],
                 ["stream", "output", "list", ID, "progress"],
                 ["stream", "input", "send", ID, "approval", "--data-json", "{}"]):
        fails("session", *args, says="(session_not_found)")
    fails("session", "stream", "input", "send", ID, "approval", says="--data-json is required")
    fails("session", "stream", "input", "send", ID, "a", "--data-json", "{x",
          says="--data-json: not valid JSON")
    fails("session", "stream", says="no such sub-command: stream")


@test
def a_schedule_says_what_it_lacks():
    fails("schedule", "create", "--task", "t", "--cron", "* * * * *", says="--key is required")
    fails("schedule", "create", "--key", "k", "--cron", "* * * * *", says="--task is required")
    fails("schedule", "create", "--key", "k", "--task", "t", says="--cron is required")
    asked = ["schedule", "create", "--key", "k", "--task", "t", "--cron"]
    fails(*asked, "* * *", says="(cron_invalid)")
    fails(*asked, "* * * * *", "--timezone", "Nowhere", says="(timezone_invalid)")
    fails(*asked, "* * * * *", "--inactive", says="(no_current_deployment)")
    assert works("schedule", "list") == ""
    for verb in (["get"], ["activate"], ["deactivate"], ["delete", "--yes"]):
        fails("schedule", *verb, ID, says="(not_found)")
    fails("schedule", "delete", ID, says="--yes")


@test
def a_bad_secret_is_refused_before_anything_is_sent():
    nowhere = environment(HELMR_API_KEY="hlmr_sk_x", HELMR_API_URL="http://127.0.0.1:9")
    fails("secret", "set", "EMPTY", "", env=nowhere, says="this one is empty")
    fails("secret", "set", "EMPTY", data="", env=nowhere, says="this one is empty")
    fails("secret", "set", "a b", "x", env=nowhere, says="the name must")
    fails("secret", "set", "BIG", data="x" * 65537, env=nowhere, says="at most 64 KiB")
    done = subprocess.run([HELMR, "secret", "set", "BYTES"], env=nowhere, input=b"\xff\xfe",
                          capture_output=True)
    assert done.returncode == 1 and b"is UTF-8 text" in done.stderr, done
    works("secret", "set", "LARGEST", data="\x01" * 65536)
    works("secret", "delete", "LARGEST", "--yes")


def echoes(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def asked_for_secret(name):
    """A prompt on a terminal of its own, as soon as it hides what is typed."""
    pid, terminal = pty.fork()
    if pid == 0:
        hear_signals()
        os.chdir(WORK)
        os.execve(HELMR, [HELMR, "secret", "set", name], environment())
    text = b""
    while not text.endswith(b"Value (not shown): "):
        text += os.read(terminal, 65536)
    assert not echoes(terminal)
    return pid, terminal


def rest_of(terminal):
    text = b""
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except OSError:
        pass
    return text.decode()


@test
def a_terminal_is_asked_for_a_secret_and_shows_nothing_of_it():
    pid, terminal = asked_for_secret("TYPED")
    os.write(terminal, b"correct horse\n")
    text = rest_of(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, text
    assert "horse" not in text and text.endswith("TYPED\r\n"), text
    os.close(terminal)
    assert works("secret", "list").startswith("TYPED\t")
    pid, terminal = asked_for_secret("NOTHING")
    os.write(terminal, b"\n")
    text = rest_of(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1 and "is empty" in text, text
    os.close(terminal)


@test
def whatever_ends_a_prompt_the_terminal_shows_letters_again():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        pid, terminal = asked_for_secret("ENDED")
        # Ours too, so that its settings can be read when the command has gone.
        ours = os.open(os.readlink(f"/proc/{pid}/fd/0"), os.O_RDWR | os.O_NOCTTY)
        os.kill(pid, number)
        status = os.waitpid(pid, 0)[1]
        assert echoes(ours), signal.Signals(number).name
        assert status == (130 << 8 if number == signal.SIGINT else number), status
        os.close(ours)
        os.close(terminal)
    fails("secret", "get", "ENDED", says="(secret_not_found)")


@test
def a_prompt_that_is_stopped_is_asked_again():
    pid, terminal = asked_for_secret("PAUSED")
    os.kill(pid, signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]) and echoes(terminal)
    os.kill(pid, signal.SIGCONT)
    text = b""
    while not text.endswith(b"Value (not shown): "):
        text += os.read(terminal, 65536)
    os.write(terminal, b"value\n")
    rest_of(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


@test
def a_reader_that_goes_away_is_no_error():
    process = subprocess.Popen([HELMR, "completion", "bash"], env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() in (0, 1)
    process.stderr.close()


@test
def an_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([HELMR, "--help"], env=environment(), stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr == "helmr: writing the output failed\n", done


@test
def init_makes_a_project_and_overwrites_nothing():
    folder = WORK / "fresh"
    assert works("init", "--dir", str(folder)) == \
        "created helmr.config.ts\ncreated tasks/hello.ts\ncreated package.json\n"
    package = json.loads((folder / "package.json").read_text())
    assert package == {"private": True, "type": "module", "packageManager": "bun@1.3.10",
                       "peerDependencies": {"@helmr/sdk": "*"},
                       "peerDependenciesMeta": {"@helmr/sdk": {"optional": True}}}
    fails("init", "--dir", str(folder), says="helmr.config.ts is there already: --force")
    again = json.loads(works("init", "--dir", str(WORK / "again"), "--json"))
    assert [file["status"] for file in again["files"]] == ["created"] * 3, again
    (folder / "tasks/hello.ts").write_text("mine")
    assert "created tasks/hello.ts\n" in works("init", "--dir", str(folder), "--force")
    assert "hello" in (folder / "tasks/hello.ts").read_text()
    works("deploy", str(folder), "--detach")
    old = project("old", package__json='{\n\t"name": "old",\n\t"type": "commonjs"\n}\n')
    assert works("init", cwd=old).endswith("updated package.json\n")
    package = json.loads((old / "package.json").read_text())
    assert package["name"] == "old" and package["type"] == "commonjs" and package["private"]


def checks_of(*args):
    done = helmr("doctor", "--server", "--json", *args)
    found = {row["check"]: row["level"] for row in json.loads(done.stdout)["checks"]}
    assert done.returncode == (1 if "fail" in found.values() else 0), done
    return {check: level for check, level in found.items() if check != "clock"}


@test
def the_doctor_looks_at_the_server_and_makes_nothing():
    data = ["--data-dir", str(up.data)]
    well = {"keys": "ok", "database": "ok", "store": "ok", "API": "ok"}
    assert checks_of(*data) == well
    key = up.data / "keys/master"
    key.chmod(0o644)
    assert checks_of(*data) == {**well, "keys": "fail"}
    key.chmod(0o600)
    empty = WORK / "empty"
    empty.mkdir()
    assert checks_of("--data-dir", str(empty)) == {"server": "fail"}
    assert list(empty.iterdir()) == []


@test
def a_damaged_configuration_is_named():
    broken = WORK / "broken"
    broken.mkdir()
    (broken / "config.toml").write_text("[x]\n")
    fails("ps", env=environment(HELMR_CONFIG_DIR=str(broken)), says="config.toml: line 1")


@test
def a_server_that_dies_is_started_again():
    before = up.children()
    assert len(before) == 1, before
    waiting = subprocess.Popen([HELMR, "deploy", ready_project("survivor")], env=environment(),
                               cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    said = ""
    while "queued" not in said:
        said += waiting.stderr.readline()
    os.kill(before[0], signal.SIGKILL)
    deadline = time.monotonic() + 30
    while helmr("ps").returncode != 0:
        assert time.monotonic() < deadline, "the server did not come back"
    assert up.children() != before
    # The follower has found its way back too.
    works("deployment", "cancel", said.split("Deployment ")[1].split()[0], "--reason", "seen")
    _, errors = waiting.communicate(timeout=60)
    assert errors.endswith("helmr: deployment build: seen\n"), errors


@test
def up_ends_in_order_and_leaves_nothing():
    children = up.children()
    assert up.stop() == 0
    for pid in children:
        assert not os.path.exists(f"/proc/{pid}"), f"process {pid} is left"
    fails("ps", says=f"cannot reach {up.url}: is `helmr up` running?")
    # The directory is free again.
    again = Up()
    assert again.lines[0].startswith("console: ")
    assert again.stop() == 0


def main():
    try:
        return run_tests()
    finally:
        if up:
            up.stop()
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
