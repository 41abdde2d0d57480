#!/bin/sh
# clang-format, headers that compile alone, shell scripts, cppcheck and clang-tidy over our own
# files. The argument is a configured build folder in which everything was compiled once.
set -eu
cd "$(dirname "$0")/.."
build=$1
tools/check_format.sh
tools/check_headers.sh "$build"
if command -v shellcheck >/dev/null; then
    # Idioms of ours: `a= b=` empties two, ${*:-…} is meant to be split, dash has ulimit -n.
    git grep --untracked -lE '^#!/bin/sh' -- . ':!examples' ':!tests/system/projects' |
        xargs shellcheck --severity=warning --exclude=SC1007,SC2048,SC3045
else
    echo "lint: shellcheck is not installed, scripts were not looked at" >&2
fi
# What the API says of itself; without the questions that its checker would ask of its makers.
REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true node_modules/.bin/redocly lint \
    --config docs/redocly.yaml --format=stylish docs/openapi.yaml
# It takes the name `template` for a word of C++, and so what is returned for a number; compilers do not.
cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,portability \
    --suppress=missingIncludeSystem --suppress=CastIntegerToAddressAtReturn -j "$(nproc)" -I src -D_GNU_SOURCE src
# One file at a time: a few take as long as fifty others. What it counts goes to its stderr.
git ls-files -co --exclude-standard 'src/*.c' |
    xargs -P "$(nproc)" -n 1 clang-tidy-19 -p "$build" --quiet 2>"$build/clang-tidy.log" || {
    grep -v 'warnings\? generated' "$build/clang-tidy.log" >&2
    exit 1
}
