#!/usr/bin/env bash
# tests/server.sh [ARGUMENTS OF THE TESTS]   All tests of this crate, and those of the command
# `toolwright runs` for databases, on a PostgreSQL server of its own.
#
# Starts a server in a folder of its own, on a free port of 127.0.0.1, with a password, and ends it.
# Installs Debian's package if there is no server (that needs root). Env: PG_BIN (the folder of
# `initdb` and `postgres`, if it is not Debian's); KILLS and SEED of the test with random kills, which
# runs last; COMMAND (what to run on the server instead of the tests).
set -euo pipefail
cd "$(dirname "$0")/.."

installed() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1; }
bin=${PG_BIN:-$(installed)}
if [ ! -x "$bin/initdb" ]; then
    apt-get install -y --no-install-recommends postgresql
    bin=$(installed)
fi

folder=$(mktemp -d)
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
# PostgreSQL does not run as root.
as=()
if [ "$(id -u)" = 0 ]; then
    id postgres >/dev/null 2>&1 || useradd --system postgres
    as=(setpriv --reuid=postgres --regid=postgres --init-groups)
    chown postgres "$folder"
fi
finish() {
    if [ -e "$folder/pid" ]; then
        kill -INT "$(cat "$folder/pid")" 2>/dev/null || true
        for _ in $(seq 100); do
            [ ! -e "$folder/data/postmaster.pid" ] || sleep 0.1
        done
    fi
    rm -rf "$folder"
}
trap finish EXIT

(umask 077 && printf '%s' "$password" >"$folder/password")
[ "${#as[@]}" = 0 ] || chown postgres "$folder/password"
(cd "$folder" && "${as[@]}" "$bin/initdb" -D "$folder/data" -U runs --pwfile="$folder/password" \
    --auth=scram-sha-256 --encoding=UTF8 --locale=C >"$folder/initdb.log")

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# One test kills the server and starts it again.
cat >"$folder/start" <<EOF
#!/usr/bin/env bash
cd "$folder"
[ ! -e pid ] || kill -9 "\$(cat pid)" || true
for _ in \$(seq 100); do
    # It refuses while processes of the server before are still there.
    setsid ${as[*]} "$bin/postgres" -D "$folder/data" -p "$port" -c max_connections=200 \\
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= >>log 2>&1 </dev/null &
    echo \$! >pid
    for _ in \$(seq 100); do
        "$bin/pg_isready" -q -h 127.0.0.1 -p "$port" && exit
        kill -0 "\$(cat pid)" 2>/dev/null || break
        sleep 0.05
    done
done
cat log
exit 1
EOF
chmod +x "$folder/start"
"$folder/start"
"$bin/postgres" --version

export TOOLWRIGHT_POSTGRES="postgres://runs:$password@127.0.0.1:$port/postgres"
# Without a server, the tests say that they were skipped. Here that is a failure.
export TOOLWRIGHT_POSTGRES_REQUIRED=1
export TOOLWRIGHT_POSTGRES_RESTART="$folder/start"
if [ -n "${COMMAND:-}" ]; then
    bash -c "$COMMAND"
    exit
fi
cargo test -p toolwright-postgres -- --nocapture "$@"
cargo test -p toolwright-cli --features postgres --test runs -- --nocapture database
# One after the other, because one of them kills the server.
cargo test -p toolwright-postgres --test main -- --ignored --nocapture --test-threads=1 heavy
cargo build -p toolwright-examples --example endless
cargo test -p toolwright-examples --test main -- --ignored --nocapture heavy_conversation_in_a_database
cargo build -p toolwright-examples --example shared_budget
cargo test -p toolwright-examples --test main -- --ignored --nocapture --test-threads=1 heavy_budgets_in_a_database
