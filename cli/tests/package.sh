#!/bin/sh
# Checks what `toolwright mcp package` writes with the official tools: the bundle with `mcpb` of npm, and the
# entry in the registry with its released schema, which PyPI's `skillsaw` has.
#
#   cli/tests/package.sh [FOLDER]
#
# Installs them into FOLDER (default: a temporary one).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

cargo build -q --manifest-path "$here/../Cargo.toml"
target=$(cargo metadata --manifest-path "$here/../Cargo.toml" --format-version 1 --no-deps |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
program=$target/debug/toolwright

cd "$folder"
npm install --no-audit --no-fund --silent @anthropic-ai/mcpb@2.1.2
[ -x python/bin/python ] || python3 -m venv python
python/bin/pip install -q skillsaw==0.22.0 jsonschema

rm -rf files unpacked
mkdir files
MEMORY_WORD=none "$program" mcp package "$program mcp serve --no-config --tools memory,text" \
    --name io.github.someone/memory --author Someone --description 'A memory, and texts' --env MEMORY_WORD \
    --url https://github.com/someone/memory-mcp/releases/download/v1/memory.mcpb --out files
bundle=$(echo files/*.mcpb)
npx mcpb info "$bundle"
npx mcpb unpack "$bundle" unpacked
npx mcpb validate unpacked/manifest.json

# As an application starts it.
"$program" mcp list "unpacked/server/toolwright mcp serve --no-config --tools memory,text" > listed
grep -q memory_store listed

python/bin/python - "$bundle" <<'END'
import hashlib, json, pathlib, sys
import jsonschema, skillsaw

folder = pathlib.Path(skillsaw.__file__).parent / "schemas/mcp_registry/v2025_12_11"
schema = json.loads((folder / "server.schema.json").read_text())
entry = json.loads(pathlib.Path("files/server.json").read_text())
jsonschema.validate(entry, schema)
package = entry["packages"][0]
assert package["fileSha256"] == hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest()
assert entry["$schema"] == schema["$id"], schema["$id"]
print("server.json: valid")
END
