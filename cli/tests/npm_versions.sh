#!/bin/sh
# Compares released versions of public MCP servers, and checks each verdict without our code.
#
#   cli/tests/npm_versions.sh [FOLDER [PACKAGE …]]
#
# Installs into FOLDER (a temporary one unless named) from npm and PyPI. npm_versions.py says what
# is checked. Needs npm, node, python3 with venv, and cargo. VALUES sets the number of values for
# each schema.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
[ $# = 0 ] || shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [ ! -x "$folder/venv/bin/python" ]; then
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install -q hypothesis-jsonschema==0.23.1 hypothesis==6.115.6 jsonschema
fi
cd "$here/.."
cargo build -q -p toolwright-cli
target=$(cargo metadata --format-version 1 --no-deps |
    "$folder/venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
# Python and Hypothesis leave files where they run.
cd "$folder"
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
exec "$folder/venv/bin/python" "$here/npm_versions.py" "$target/debug/toolwright" "$folder" "$@"
