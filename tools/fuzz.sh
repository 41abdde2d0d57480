#!/bin/sh
# Runs every fuzz target of a build folder for some seconds each, starting from its saved inputs.
set -eu
cd "$(dirname "$0")/.."
build=$1 seconds=$2
for target in "$build"/*_fuzz; do
    name=$(basename "$target" _fuzz)
    found=$(mktemp -d)
    echo "fuzz: $name for $seconds s"
    "$target" -max_total_time="$seconds" -max_len=65536 -print_final_stats=0 -verbosity=0 \
        -artifact_prefix="$build/$name-" "$found" "fuzz/corpus/$name"
    rm -rf "$found"
done
