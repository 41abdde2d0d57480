#!/bin/sh
# Manual pages and shell completion, as the binary itself prints them: install_texts.sh HELMR SHARE
set -eu
helmr=$1
share=$2

"$helmr" man "$share/man/man1"
put() {
    install -d "$(dirname "$share/$2")"
    "$helmr" completion "$1" >"$share/$2"
}
put bash bash-completion/completions/helmr
put zsh zsh/site-functions/_helmr
put fish fish/vendor_completions.d/helmr.fish
