#!/bin/sh
# Shows what the service writes for AG-UI to the real packages: `@ag-ui/client` 1.0 and the last one
# before it, on which `@copilotkit/core` is built, and `ag-ui-validate` of PyPI.
#
#   serve/tests/ag_ui.sh [FOLDER]
#
# Installs them into FOLDER (default: a temporary one). AG_UI_CASES is the number of generated runs
# (default: 300). TOOLWRIGHT_POSTGRES is the address of a database for the runs, which are in memory otherwise.
# Everything runs on 127.0.0.1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Node looks for packages beside the program.
cp "$here"/ag_ui/package.json "$here"/ag_ui/*.mjs "$folder"
(cd "$folder" && npm install --no-audit --no-fund > npm.log 2>&1) || { cat "$folder/npm.log"; exit 1; }
if [ ! -x "$folder/python/bin/python" ]; then
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install -q ag-ui-validate==0.4.0 ag-ui-protocol==1.0.0
fi

AG_UI_FOLDER=$folder cargo test -q --manifest-path "$here/../Cargo.toml" --lib -- \
    --ignored heavy_runs_for_the_real_clients
rm -rf "$folder/answers"
for client in @ag-ui/client @ag-ui/client-before-1; do
    node "$folder/generated.mjs" "$folder/cases.jsonl" "$folder/answers" $client
done
AG_UI_FOLDER=$folder cargo test -q --manifest-path "$here/../Cargo.toml" --test main \
    ${TOOLWRIGHT_POSTGRES:+--features postgres} -- --ignored --nocapture heavy_the_real_clients
"$folder/python/bin/python" "$here/ag_ui/validate.py" "$folder/answers"
