#!/bin/sh
# Checks that the client compiles for 32-bit words, and for a target with neither threads nor files:
# without its HTTP transport, it needs neither. The CPU backend, which calls the C library, must
# compile with musl, because a release has a static command.
set -eu
for target in i686-unknown-linux-gnu wasm32-unknown-unknown x86_64-unknown-linux-musl; do
    if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx "$target"; then
        rustup target add "$target"
    fi
done
# In a browser, the program that links the client must provide randomness, as bindings/wasm does.
unset RUSTFLAGS
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS="-D warnings"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS='-D warnings --cfg getrandom_backend="custom"'
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-D warnings"
"${CARGO:-cargo}" check --locked --package spirea-client --no-default-features \
    --target i686-unknown-linux-gnu --target wasm32-unknown-unknown
"${CARGO:-cargo}" check --locked --package spirea-cpu --target x86_64-unknown-linux-musl
