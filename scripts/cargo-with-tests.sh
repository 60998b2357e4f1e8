#!/usr/bin/env bash
# Replacement for cargo, for maturin when it builds the Python package for the tests. `cargo rustc`
# of one package would resolve other features of the dependencies than the workspace's tests, and
# compile everything again. This script builds the libraries of the workspace, which are already
# compiled except for the extension. It excludes the accelerator's simulator, which the package does
# not need; the features are the same without it.
set -euo pipefail
cargo=${SPIREA_CARGO:-cargo}
if [ "${1:-}" != rustc ]; then
    exec "$cargo" "$@"
fi
# Use the environment of cargo test: maturin's variables for PyO3 would cause PyO3 to be compiled
# again.
unset "${!PYO3_@}" VIRTUAL_ENV
exec "$cargo" build --workspace --exclude spirea-ive --lib --locked --message-format=json-render-diagnostics
