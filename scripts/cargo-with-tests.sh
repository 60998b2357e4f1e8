#!/usr/bin/env bash
# Replaces cargo for maturin when the Python package is built for the tests. `cargo rustc` of one package would resolve other
# features of the dependencies than the workspace's tests, and compile everything again. This script selects the libraries of the
# workspace instead; all but the extension are compiled already. It excludes the accelerator's simulator, which is not needed and
# does not change the features.
set -euo pipefail
cargo=${SPIREA_CARGO:-cargo}
if [ "${1:-}" != rustc ]; then
    exec "$cargo" "$@"
fi
# Uses the environment of `cargo test`: maturin's variables for PyO3 would cause PyO3 to be compiled again.
unset "${!PYO3_@}" VIRTUAL_ENV
exec "$cargo" build --workspace --exclude spirea-ive --lib --locked --message-format=json-render-diagnostics
