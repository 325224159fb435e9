#!/bin/sh
# Gives `toolwright run` the tools of many public MCP servers, more than 500 in all.
#
#   CONTRACT_SERVER=contract_server.py cli/tests/many_servers.sh [FOLDER]
#
# Installs the servers into FOLDER (a temporary one unless named) from npm, with a Node new enough for
# them. many_servers.py says what is checked. CONTRACT_SERVER is a program that checks each request as
# the providers do, and plays replies. Needs Linux, npm, python3 with jsonschema, and cargo. No server
# has a valid key, and the network is not used.
set -eu

: "${CONTRACT_SERVER:?set it to the path of contract_server.py}"
CONTRACT_SERVER=$(realpath "$CONTRACT_SERVER")
export CONTRACT_SERVER
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

packages=$(python3 "$here/many_servers.py" packages)
if [ ! -f "$folder/installed" ] || [ "$packages" != "$(cat "$folder/installed")" ]; then
    cd "$folder"
    [ -f package.json ] || npm init -y > npm.log 2>&1
    # The scripts of some packages download browsers.
    # shellcheck disable=SC2086
    npm install --ignore-scripts --no-audit --no-fund $packages >> npm.log 2>&1
    echo "$packages" > installed
fi
cd "$here/.."
cargo build -q -p toolwright-cli
target=$(cargo metadata --format-version 1 --no-deps |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec python3 "$here/many_servers.py" check "$target/debug/toolwright" "$folder"
