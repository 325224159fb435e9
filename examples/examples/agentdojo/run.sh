#!/bin/sh
# Plays AgentDojo with an agent whose model obeys every injection, without and with approval policies.
#
#   examples/examples/agentdojo/run.sh [FOLDER [OPTION …]]
#
# Installs AgentDojo and the Python SDK of MCP from PyPI into FOLDER (target/agentdojo unless named).
# The options are those of the example `agentdojo`, such as `--suite banking` or `--losses`.
# Needs python3 with venv, and cargo. Takes about ten minutes on two cores.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../../../target/agentdojo}
[ $# = 0 ] || shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [ ! -x "$folder/venv/bin/python" ]; then
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install -q agentdojo==0.1.35 mcp==2.3.0
fi
cd "$here"
exec cargo run -q -p toolwright-examples --example agentdojo -- \
    --python "$folder/venv/bin/python" "$@"
