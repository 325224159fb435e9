#!/bin/sh
# Compares the tools with the programs whose names they have, on generated texts.
# DIFFERENTIAL_CASES (default: 1000) is the number of cases, DIFFERENTIAL_SEED selects them.
set -eu
cd "$(dirname "$0")"
if ! command -v rg > /dev/null; then
    apt-get install -y ripgrep || { echo "install ripgrep, then run this again" >&2; exit 1; }
fi
for program in grep rg sort uniq wc sed; do
    "$program" --version | head -n 1
done
exec cargo test -p toolwright-text --test main -- differential:: --ignored --nocapture
