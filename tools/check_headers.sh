#!/bin/sh
# Fails when a header of ours does not compile alone. The argument is a configured build folder,
# for the headers made by the build.
set -eu
cd "$(dirname "$0")/.."
build=$1
libraries=$(pkg-config --cflags jansson libcrypto libsodium sqlite3 libpq libcurl libarchive libzstd \
    libmnl)
# Through -include, because #pragma once draws a warning in a file compiled by itself.
# shellcheck disable=SC2086
git ls-files -co --exclude-standard 'src/*.h' | sed 's|^src/||' |
    xargs -P "$(nproc)" -I '{}' "${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -Isrc "-I$build/src" $libraries \
        -include base/banned.h -Wall -Wextra -Wno-missing-field-initializers -Wno-unused-function \
        -Wno-unused-variable -Werror -fsyntax-only -include '{}' -x c /dev/null
