#!/bin/sh
# Installs what this project needs on Debian 12 and is missing: packages, then Node 24 and the npm
# packages of the TypeScript side. Does nothing when everything is there.
set -eu
cd "$(dirname "$0")/.."

packages="build-essential pkg-config python3 git curl ca-certificates zstd procps
meson ninja-build ccache clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev cppcheck musl-tools
node-llhttp libcurl4-openssl-dev libjansson-dev libsqlite3-dev libpq-dev libssl-dev
libwslay-dev libsodium-dev libarchive-dev libzstd-dev libmnl-dev libdeflate-dev libext2fs-dev
e2fsprogs runsc runc qemu-system-x86 lz4 nftables iproute2 mmdebstrap postgresql tzdata openssl sslscan testssl.sh gdb faketime
docker-registry apache2-utils skopeo umoci buildah chromium-headless-shell zsh fish mandoc tmux"

missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" ||
        missing="$missing $package"
done
# Debian's npm brings a Node that is old but enough to fetch the one we use.
command -v npm >/dev/null 2>&1 || missing="$missing npm"

if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "deps: these packages are missing; as root: apt-get install$missing" >&2
        exit 1
    fi
    echo "deps: installing$missing" >&2
    apt-get update -qq
    # A package's own service is not wanted here: the tests start what they need themselves.
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d.helmr && chmod +x /usr/sbin/policy-rc.d.helmr
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        mv /usr/sbin/policy-rc.d.helmr /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    else
        rm -f /usr/sbin/policy-rc.d.helmr
    fi
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
fi

make --no-print-directory node_modules/.stamp
