#!/usr/bin/env bash
# tests/dbos/run.sh   The cases of ADR 0023. DBOS_DATABASE_URL names an empty database.
set -uo pipefail
cd "$(dirname "$0")"
cargo build --target-dir "${TARGET:-../../../../target/dbos}" || exit 1
probe=${TARGET:-../../../../target/dbos}/debug/dbos-probe
LOG=$(mktemp)
export LOG
show() {
    sed 's/^/    /' "$LOG"
    : >"$LOG"
}

echo "1. Executor a is killed in the step. Executor b is there for 15 seconds:"
"$probe" a 1 start w1 &
pid=$!
sleep 1.5
kill -9 "$pid"
wait "$pid" 2>/dev/null
"$probe" b 1 wait 15
show
echo "2. Executor a is there for 8 seconds, with version 2 of the program:"
"$probe" a 2 wait 8
show
echo "3. Executor a is there for 8 seconds, with version 1:"
"$probe" a 1 wait 8
show
echo "4. A second process with the same executor id starts while the first one works:"
"$probe" a 1 start w2 &
pid=$!
sleep 1.5
"$probe" a 1 wait 8
wait "$pid"
show
echo "5. A step fails once. The workflow is started again:"
"$probe" a 1 fail w3
"$probe" a 1 fail w3
show
rm "$LOG"
