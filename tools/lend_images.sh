#!/bin/sh
# Gives one worker's directory the images of another: tools/lend_images.sh FROM TO. As links where it
# can be, for copies of a root file system are slow. Locks are not lent: with one file behind both
# names, each store would take the other for a second user of its own.
set -eu
from=$1 to=$2
mkdir -p "$to"
how=-a
[ "$(stat -c %d "$from")" != "$(stat -c %d "$to")" ] || how=-al
for part in oci layers; do
    [ ! -d "$from/$part" ] || cp "$how" "$from/$part" "$to/$part"
done
rm -rf "$to"/oci/*-lock "$to/oci/lock" "$to/oci/in-use" "$to"/oci/holds/* "$to"/oci/tmp/*
