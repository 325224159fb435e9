#!/usr/bin/env bash
# Plays the page of `toolwright serve` in Chromium, with a model that writes what each scene needs: empty,
# streaming, approval, a call that may have happened, an agent below, error, a long conversation, a phone, dark, keys only, hostile texts, attachments.
# Needs Chromium, Node.js and npm; pngquant makes pictures smaller.
# Usage: cli/tests/browser/serve.sh [FOLDER [SCENE,…]]
# Screenshots go to FOLDER/pictures. PICTURES=1 also replaces those in docs/pictures.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../../.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder/pictures"
folder=$(cd "$folder" && pwd)
export CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}

cd "$repo"
cargo build -q -p toolwright-cli
COMMAND=$(realpath "${CARGO_TARGET_DIR:-target}/debug/toolwright")
export COMMAND
cp "$here"/serve.mjs "$here"/model.mjs "$here"/pay.mjs "$folder/"
cd "$folder"
[ -d node_modules/axe-core ] || npm install --silent --no-fund --no-audit playwright-core@1 axe-core@4
node serve.mjs "$folder/homes-$$" "${2:-}"
if [ "${PICTURES:-}" = 1 ]; then
    mkdir -p "$repo/docs/pictures"
    cp pictures/serve-*.png "$repo/docs/pictures/"
    # With fewer colors, pictures need a third.
    if command -v pngquant > /dev/null; then
        pngquant --force --ext .png --nofs 64 "$repo"/docs/pictures/serve-*.png
    fi
fi
