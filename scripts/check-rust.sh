#!/bin/sh
# Checks that Rust is installed and new enough; otherwise prints one line with the remedy.
set -eu
cd "$(dirname "$0")/.."
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
remedy="install it with: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
if command -v rustup >/dev/null; then
    remedy="update it with: rustup update stable"
fi
if ! found=$("${CARGO:-cargo}" --version 2>/dev/null); then
    echo "Spirea needs Rust $needed or newer, and there is no cargo: $remedy" >&2
    exit 1
fi
version=${found#cargo }
version=${version%% *}
oldest=$(printf '%s\n%s\n' "$needed" "$version" | sort -V | head -n 1)
if [ "$oldest" != "$needed" ]; then
    echo "Spirea needs Rust $needed or newer, and this is $version: $remedy" >&2
    exit 1
fi
