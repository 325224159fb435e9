#!/usr/bin/env bash
# tests/openapi.sh PATH_TO_MOCK   Checks every request of the tools against GitHub's OpenAPI
# description.
#
# PATH_TO_MOCK is a script that is not part of this repository. It is called as
# `PATH_TO_MOCK PORT all`. It serves the whole description on 127.0.0.1:PORT with Prism, writes
# query-params.json (path -> names) into $DIR, and logs an invalid request as
# `Violation: request`.
#
# Environment: DIR (the working folder; it is kept, so that the mock downloads once), PORT (4719).
set -euo pipefail
mock=$(realpath "${1:?the path to the mock}")
port=${PORT:-4719}
export DIR=${DIR:-${TMPDIR:-/tmp}/github-mock}
mkdir -p "$DIR"
log=$DIR/log.txt
: >"$log"
cd "$(dirname "$0")/.."
bash "$mock" "$port" all >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true' EXIT
until grep -q "Prism is listening" "$log"; do
    kill -0 "$pid" || { cat "$log"; exit 1; }
    sleep 1
done
GITHUB_MOCK=127.0.0.1:$port GITHUB_MOCK_PARAMS=$DIR/query-params.json \
    cargo test -p toolwright-github --test main -- openapi:: --ignored --nocapture
echo "requests that the mock received: $(grep -c 'Request received' "$log")"
if grep "Violation: request" "$log"; then
    echo "requests broke the description"
    exit 1
fi
echo "no violation"
