#!/usr/bin/env bash
# Runs the CPU backend's tests on its AVX-512 path.
#
# A processor that has it ran them with all others. Elsewhere the tests are built as static programs and run
# under an emulated processor that has it: the results are the instructions' own, the timings mean nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

if grep -qw avx512_vnni /proc/cpuinfo; then
    echo "AVX-512: this processor has it; the tests above ran it"
    exit 0
fi
target=target/avx512
programs=$(CARGO_TARGET_DIR=$target RUSTFLAGS="-C target-feature=+crt-static" \
    cargo test --locked --release --package spirea-cpu --test it --lib --no-run \
    --target x86_64-unknown-linux-gnu --message-format json |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        print(message["executable"])
')
# The emulator runs some 30 million instructions a second: a few cases of each property must do, and of some modules the
# tests whose cases go through every kernel.
emulate() {
    local program=$1 cases=$2
    echo "AVX-512, emulated: $(basename "$program") ${*:3}"
    SPIREA_PROPERTY_CASES=$cases AVX512_EMULATED_TIMEOUT=600 \
        scripts/avx512-emulated.sh "$program" --test-threads 1 "${@:3}"
}
for program in $programs; do
    case $(basename "$program") in
        it-*)
            emulate "$program" 6 ring::random_pipelines
            emulate "$program" 4 scalar_fold:: module_fold:: share_fold::any_shape share_fold::every_function
            ;;
        *) emulate "$program" 4 aes_expands ;;
    esac
done
