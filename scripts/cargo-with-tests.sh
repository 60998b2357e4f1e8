#!/usr/bin/env bash
# cargo for maturin, where the Python package is built for the tests: `cargo rustc` of one package would resolve other features
# of the dependencies than the tests of the workspace have, and compile everything once more. This selects the libraries of the
# workspace, which are compiled already, but for the extension. Without the accelerator's simulator, which it does not need,
# features are the same.
set -euo pipefail
cargo=${SPIREA_CARGO:-cargo}
if [ "${1:-}" != rustc ]; then
    exec "$cargo" "$@"
fi
# As cargo test has them: PyO3's variables of maturin would have PyO3 compiled again.
unset "${!PYO3_@}" VIRTUAL_ENV
exec "$cargo" build --workspace --exclude spirea-ive --lib --locked --message-format=json-render-diagnostics
