#!/bin/sh
# Fails when clang-format would change a C file.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.[ch]' | xargs clang-format-19 --dry-run -Werror
