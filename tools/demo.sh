#!/bin/sh
# Starts Helmr on an empty data directory, deploys an example, runs it and shows what it printed.
# HELMR_ENGINE names the engine, as everywhere. The base image is kept in build/image-cache for the
# next time. Ctrl-C ends it; without a terminal, or with DEMO_ONCE=1, it ends by itself.
set -eu
cd "$(dirname "$0")/.."
helmr=$PWD/${B:-build}/default/helmr
cache=$PWD/${B:-build}/image-cache
base=node:24-bookworm-slim

data=$(mktemp -d /tmp/helmr-demo.XXXXXX)
export HELMR_CONFIG_DIR=$data/config
up=
stop() {
    status=$?
    trap - EXIT INT TERM
    if [ -n "$up" ]; then
        kill -TERM "$up" 2>/dev/null || true
        wait "$up" || status=$?
    fi
    rm -rf "$data"
    exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "demo: preparing $base (kept in ${cache#"$PWD"/})" >&2
"$helmr" image bootstrap --data-dir "$cache" "$base" >/dev/null
tools/lend_images.sh "$cache/worker" "$data/worker"

echo "demo: starting helmr up on an empty data directory" >&2
touch "$data/up.out" "$data/up.log"
"$helmr" up --data-dir "$data" --addr "${DEMO_ADDR:-127.0.0.1:3000}" >"$data/up.out" 2>"$data/up.log" &
up=$!
i=0
while ! grep -q '^engine: ' "$data/up.out"; do
    i=$((i + 1))
    # A microVM without KVM takes its time until it is proved.
    if [ "$i" -gt 3000 ] || ! kill -0 "$up" 2>/dev/null || grep -q 'no engine can' "$data/up.log"; then
        echo "demo: helmr up did not become ready:" >&2
        tail -n 20 "$data/up.log" >&2
        exit 1
    fi
    sleep 0.1
done
cat "$data/up.out" >&2
console=$(sed -n 's/^console: //p' "$data/up.out")

"$helmr" deploy examples/hello-world
run=$("$helmr" run hello-world -p name=Ada)
"$helmr" logs "$run" --follow
"$helmr" run wait "$run" >/dev/null
"$helmr" show "$run" --json >"$data/run.json"
output=$(python3 -c '
import json, sys
run = json.load(sys.stdin)
if run["status"] != "succeeded":
    sys.exit("demo: the run ended as " + run["status"] + ": " + json.dumps(run.get("error")))
print(json.dumps(run["output"], separators=(",", ":")))' <"$data/run.json")
engine=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["isolation"]["engine"])' <"$data/run.json")

if [ "${DEMO_ONCE:-}" != 1 ] && [ -t 1 ]; then
    echo "demo: serving at $console until Ctrl-C" >&2
    echo "demo: ok run=$run engine=$engine output=$output console=$console"
    wait "$up" || true
    up=
    exit 0
fi
kill -TERM "$up"
wait "$up"
up=
echo "demo: ok run=$run engine=$engine output=$output console=$console"
