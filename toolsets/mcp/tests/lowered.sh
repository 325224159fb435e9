#!/bin/sh
# Lists the tools of more than 30 public MCP servers, lowers them to each dialect, and calls some.
#
#   toolsets/mcp/tests/lowered.sh [FOLDER]
#
# Installs the servers into FOLDER (a temporary one unless named) from npm and PyPI, with a Node new
# enough for them. servers/lowered.py says what is checked, and servers/lowered.md has the results; with
# RECORD=1 they are written anew. Needs Linux, npm, python3 with venv, git and cargo. No server has a
# valid key, and the network is not used.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
case $folder in
*' '*)
    echo "the folder's path has a space in it; choose another" >&2
    exit 2
    ;;
esac

packages=$(python3 "$here/servers/lowered.py" packages)
if [ ! -f "$folder/installed" ] || [ "$packages" != "$(cat "$folder/installed")" ]; then
    cd "$folder"
    [ -f package.json ] || npm init -y > npm.log 2>&1
    # The scripts of some packages download browsers.
    # shellcheck disable=SC2046
    npm install --ignore-scripts --no-audit --no-fund $(echo "$packages" | head -n 1) >> npm.log 2>&1
    for package in $(echo "$packages" | tail -n 1); do
        # Each has its own environment, because they need different versions of the SDK.
        environment=py/${package%%==*}
        [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
        "$environment/bin/pip" install -q "$package"
    done
    echo "$packages" > installed
fi
cd "$here/.."
cargo build -q -p toolwright-cli
target=$(cargo metadata --format-version 1 --no-deps |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec python3 "$here/servers/lowered.py" check "$target/debug/toolwright" "$folder" ${RECORD:+--write}
