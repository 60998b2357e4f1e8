#!/bin/sh
# Prints the estimated time of the first build: $1 seconds of processor time, divided among this machine's cores.
set -eu
cd "$(dirname "$0")/.."
if [ ! -e target/debug/spirea ]; then
    cores=$(getconf _NPROCESSORS_ONLN)
    echo "building Spirea: about $(($1 / cores / 60 + 1)) minutes the first time on $cores cores, once everything is fetched"
fi
