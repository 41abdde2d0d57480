#!/bin/sh
# Packs what every guest sees of the platform: agent, adapter, SDK. The same input gives the same
# bytes, and an unchanged archive keeps its time, so that nothing is rebuilt for it.
set -eu
build=$1 archive=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/opt/helmr/adapter" "$root/opt/helmr/sdk"
install -m 0755 "$build/src/guest/helmr-guest" "$root/helmr-guest"
cp -R runtime/typescript/dist/. "$root/opt/helmr/adapter/"
cp "$build/runtime/typescript/native/reseed.node" "$root/opt/helmr/adapter/"
cp -R sdk/typescript/package.json sdk/typescript/dist "$root/opt/helmr/sdk/"
find "$root" -type f ! -name helmr-guest -exec chmod 0644 {} +
tar -C "$root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar \
    -cf "$archive.new" helmr-guest opt
if cmp -s "$archive.new" "$archive"; then rm "$archive.new"; else mv "$archive.new" "$archive"; fi
