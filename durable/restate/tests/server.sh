#!/usr/bin/env bash
# tests/server.sh FOLDER   Starts a Restate server on 127.0.0.1 and returns when it is ready.
#
# Installs the server from npm into FOLDER at the first start. Writes its process id to
# FOLDER/restate.pid, and its addresses to FOLDER/env. After a kill, a second start with the same
# folder continues with the same data and ports. Stop it with `kill "$(cat FOLDER/restate.pid)"`.
set -euo pipefail
folder=$(mkdir -p "${1:?a folder for the server and its data}" && cd "$1" && pwd)
version=1.7.12
package=@restatedev/restate-server-linux-x64
binary=$folder/npm/node_modules/$package/bin/restate-server

if [ ! -x "$binary" ]; then
    mkdir -p "$folder/npm"
    echo '{"private": true}' >"$folder/npm/package.json"
    npm install --prefix "$folder/npm" --no-audit --no-fund --ignore-scripts --silent "$package@$version"
fi

# Chooses three free ports at the first start. Later it waits until the killed server has freed them.
python3 - "$folder/ports" <<'PY'
import pathlib, socket, sys, time
file = pathlib.Path(sys.argv[1])
if not file.exists():
    free = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    file.write_text(" ".join(str(one.getsockname()[1]) for one in free) + "\n")
    for one in free:
        one.close()
until = time.time() + 15
for port in file.read_text().split():
    while True:
        try:
            socket.create_server(("127.0.0.1", int(port))).close()
            break
        except OSError as error:
            if time.time() > until:
                sys.exit(f"port {port} is in use: {error}")
            time.sleep(0.05)
PY
read -r ingress admin node <"$folder/ports"

export RESTATE_DISABLE_TELEMETRY=true RESTATE_LOG_DISABLE_ANSI_CODES=true
export RESTATE_BASE_DIR=$folder/data RESTATE_NODE_NAME=test RESTATE_CLUSTER_NAME=test
export RESTATE_LISTEN_MODE=tcp RESTATE_BIND_IP=127.0.0.1 RESTATE_ADVERTISED_HOST=127.0.0.1
export RESTATE_BIND_PORT=$node RESTATE_INGRESS__BIND_PORT=$ingress RESTATE_ADMIN__BIND_PORT=$admin
export RESTATE_ADMIN__DISABLE_WEB_UI=true RESTATE_DEFAULT_NUM_PARTITIONS=4
export RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE=256MiB
setsid "$binary" --no-logo >>"$folder/restate.log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$folder/restate.pid"
printf 'RESTATE_INGRESS=http://127.0.0.1:%s\nRESTATE_ADMIN=http://127.0.0.1:%s\n' "$ingress" "$admin" \
    >"$folder/env"
for _ in $(seq 300); do
    if curl -sf -m1 -o /dev/null "http://127.0.0.1:$admin/health" &&
        curl -sf -m1 -o /dev/null "http://127.0.0.1:$ingress/restate/health"; then
        exit 0
    fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
tail -20 "$folder/restate.log"
exit 1
