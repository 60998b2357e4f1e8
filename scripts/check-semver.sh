#!/bin/sh
# Compares the interface of the crate `spirea` with that of the newest release, a tag such as v0.1.0.
# Needs cargo-semver-checks: `cargo install --locked cargo-semver-checks`.
set -eu
release=$(git tag --list 'v[0-9]*' --sort=-version:refname | head -n 1)
if [ -z "$release" ]; then
    echo "there is no release yet, no tag such as v0.1.0: nothing was compared" >&2
    exit 0
fi
exec "${CARGO:-cargo}" semver-checks --package spirea --all-features --baseline-rev "$release"
