#!/usr/bin/env bash
# Makes reports of evals with scripted models, reads their JUnit XML, and checks their pages in Chromium:
# no console messages, no requests, filters, keyboard, width of a phone, contrast in both schemes, hostile
# texts, links to runs, and the time to load 1,000 attempts. Needs Chromium, Node.js, npm and Python;
# pngquant makes pictures smaller. Usage: evals/tests/browser/run.sh [FOLDER]
# Screenshots go to FOLDER/pictures. PICTURES=1 also replaces that in docs/pictures.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../../.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder/pictures"
folder=$(cd "$folder" && pwd)
export CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}

cd "$repo"
if [ ! -e "$folder/long.xml" ]; then
    REPORTS="$folder" cargo test -q -p toolwright-evals --test main -- --ignored give_reports
fi

cp "$here"/check.mjs "$here"/junit.py "$folder/"
cd "$folder"
[ -d python ] || { python3 -m venv python && python/bin/pip install -q junitparser==5.0.3; }
python/bin/python junit.py "$folder"
[ -d node_modules/axe-core ] || npm install --silent --no-fund --no-audit playwright-core@1 axe-core@4
node check.mjs "$folder"
if [ "${PICTURES:-}" = 1 ]; then
    mkdir -p "$repo/docs/pictures"
    cp pictures/eval-report.png "$repo/docs/pictures/"
    # With fewer colors, pictures need a third.
    if command -v pngquant > /dev/null; then
        pngquant --force --ext .png --nofs 96 "$repo"/docs/pictures/eval-report.png
    fi
fi
