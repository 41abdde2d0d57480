#!/bin/sh
# clang-format, clang-tidy and cppcheck over our own C. The argument is a configured build folder.
set -eu
cd "$(dirname "$0")/.."
build=$1
tools/check_format.sh
git ls-files -co --exclude-standard 'src/*.c' |
    xargs -P "$(nproc)" -n 4 clang-tidy-19 -p "$build" --quiet
cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,portability \
    --suppress=missingIncludeSystem -j "$(nproc)" -I src -D_GNU_SOURCE src
