#!/usr/bin/env bash
# cargo for maturin, where the Python package is built for the tests: `cargo rustc` of one package would resolve other
# features of what all packages need than `cargo test --workspace` does, and compile it all once more. This builds the
# extension with the whole workspace's tests, of which nothing is left to do but the extension.
set -euo pipefail
cargo=${SPIREA_CARGO:-cargo}
if [ "${1:-}" != rustc ]; then
    exec "$cargo" "$@"
fi
# As cargo test has them: what maturin says of the interpreter would have PyO3 compiled again.
unset "${!PYO3_@}" VIRTUAL_ENV
exec "$cargo" build --workspace --lib --tests --locked --message-format=json-render-diagnostics
