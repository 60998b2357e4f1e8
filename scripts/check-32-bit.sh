#!/bin/sh
# Checks that the client without its HTTP transport compiles for words of 32 bits, and for a target with neither threads nor
# files.
set -eu
targets=
for target in i686-unknown-linux-gnu wasm32-unknown-unknown; do
    if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx "$target"; then
        rustup target add "$target"
    fi
    targets="$targets --target $target"
done
# In a browser, the program that links the client must provide randomness, as bindings/wasm does.
unset RUSTFLAGS
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS="-D warnings"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS='-D warnings --cfg getrandom_backend="custom"'
# shellcheck disable=SC2086 # a list of words
"${CARGO:-cargo}" check --locked --package spirea-client --no-default-features $targets
