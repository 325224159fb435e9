#!/usr/bin/env bash
# Makes runs with real agents and scripted models, writes their pages, and checks these in Chromium:
# no console messages, no requests, keyboard, width of a phone, contrast in both schemes, and the time
# to load 2,000 steps. Needs Chromium, Node.js and npm; pngquant
# makes pictures smaller. Usage: cli/tests/browser/run.sh [FOLDER]
# Screenshots go to FOLDER/pictures. PICTURES=1 also replaces those in docs/pictures.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../../.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder/runs" "$folder/pictures"
folder=$(cd "$folder" && pwd)
export CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}

cd "$repo"
cargo build -q -p toolwright-cli
if [ ! -e "$folder/runs/long.journal" ]; then
    RUNS="$folder/runs" cargo test -q -p toolwright-cli --test runs -- --ignored give_runs
fi
command=${CARGO_TARGET_DIR:-target}/debug/toolwright
for run in short failed down waiting decided hostile long; do
    "$command" runs --journal "$folder/runs" page "$run" -o "$folder/$run.html"
done

cp "$here"/*.mjs "$folder/"
cd "$folder"
[ -d node_modules/axe-core ] || npm install --silent --no-fund --no-audit playwright-core@1 axe-core@4
# The page that follows its run needs a run that goes on.
COMMAND=$(cd "$repo" && realpath "$command") node check.mjs "$folder"
if [ "${PICTURES:-}" = 1 ]; then
    mkdir -p "$repo/docs/pictures"
    rm -f "$repo"/docs/pictures/run-*.png
    cp pictures/run-*.png "$repo/docs/pictures/"
    # With fewer colors, pictures need a third.
    if command -v pngquant > /dev/null; then
        pngquant --force --ext .png --nofs 96 "$repo"/docs/pictures/run-*.png
    fi
fi
