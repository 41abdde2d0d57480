#!/bin/sh
# The pictures of README and docs, as the tests of the console take them: tools/pictures.sh
set -eu
cd "$(dirname "$0")/.."
shots=${B:-build}/screenshots

tests/system/run console >"${B:-build}/pictures.log" || {
    tail -n 40 "${B:-build}/pictures.log"
    exit 1
}
cp "$shots/overview-desk.png" docs/pictures/overview.png
cp "$shots/approvals-desk.png" docs/pictures/approvals.png
cp "$shots/run-desk.png" docs/pictures/run.png
cp "$shots/approvals-phone.png" docs/pictures/approvals-phone.png
