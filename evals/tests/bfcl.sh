#!/bin/sh
# Compares the verdicts of expected calls with those of BFCL's own checker, on right and mutated answers to
# all questions of its AST categories.
#
#   evals/tests/bfcl.sh [FOLDER]
#
# Installs the package `bfcl-eval` into FOLDER (default: a temporary one), without the clients of
# providers and models that its checker does not need. Needs python3 with venv, and cargo.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [ ! -x "$folder/python/bin/python" ]; then
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install -q --no-deps bfcl-eval==2026.3.23 \
        filelock==3.20.0 python-dotenv==1.1.1 tqdm==4.67.1
fi

# BFCL makes folders for its results where this variable points.
BFCL_PROJECT_ROOT=$folder PYTHONDONTWRITEBYTECODE=1 \
    "$folder/python/bin/python" "$here/bfcl/verdicts.py" "$folder/verdicts.jsonl"
BFCL_VERDICTS=$folder/verdicts.jsonl cargo test -q --manifest-path "$here/../Cargo.toml" --test main -- \
    --ignored --nocapture verdicts_are_those_of_bfcl
