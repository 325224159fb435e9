#!/usr/bin/env python3
"""Compares released versions of public MCP servers, and checks each verdict without our code.

Installs both versions of each package from npm into a folder, asks each server for its tools over
stdio, and runs `toolwright contract diff --json` on the two lists. Then, for each tool of both
versions:

- If the command says that what models wrote before still reads, values that the old input schema
  allows are generated (hypothesis-jsonschema), and the package jsonschema checks them with the new
  schema. For outputs it is the other way round: values of the new schema, checked with the old one.
- If the command says that the change breaks, the same values are searched for one that shows it.

Exit code: 1 if a value contradicts "nothing breaks". Use npm_versions.sh, which installs the packages.
"""

import copy
import json
import os
import select
import subprocess
import sys
import time

import jsonschema
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis_jsonschema import from_schema

# Package, versions from old to new, arguments of the server.
SERVERS = [
    ("@modelcontextprotocol/server-filesystem", ["2025.3.28", "2025.7.29", "2025.11.25", "2026.8.31"], ["."]),
    ("@modelcontextprotocol/server-memory", ["0.6.2", "2025.9.25", "2026.8.31"], []),
    ("@modelcontextprotocol/server-everything", ["0.6.2", "2025.9.25", "2026.8.31"], []),
    ("@modelcontextprotocol/server-sequential-thinking", ["0.6.2", "2025.12.18", "2026.8.31"], []),
    ("@upstash/context7-mcp", ["1.0.33", "2.2.5", "4.1.1"], []),
    ("@playwright/mcp", ["0.0.30", "0.0.56", "0.0.83"], ["--headless"]),
    ("chrome-devtools-mcp", ["0.9.0", "0.20.0", "1.11.0"], ["--headless"]),
]
VALUES = int(os.environ.get("VALUES", "300"))


def installed(folder, package, version):
    """The command of an installed server."""
    # Not `package@version`: npm would take such a folder for the package.
    home = os.path.join(folder, package.replace("/", "+") + "=" + version)
    package_json = os.path.join(home, "node_modules", package, "package.json")
    if not os.path.exists(package_json):
        os.makedirs(home, exist_ok=True)
        env = dict(os.environ, PUPPETEER_SKIP_DOWNLOAD="1", PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD="1")
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", home, f"{package}@{version}"],
            check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    programs = json.load(open(package_json))["bin"]
    program = programs if isinstance(programs, str) else next(iter(programs.values()))
    return ["node", os.path.join(home, "node_modules", package, program)]


def tools(command, folder):
    """All tools of a server, as it lists them."""
    server = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    ids = iter(range(1, 10_000))
    buffered = b""

    def send(message):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()

    def ask(method, params):
        nonlocal buffered
        number = next(ids)
        send({"id": number, "method": method, "params": params})
        until = time.time() + 60
        while True:
            while b"\n" in buffered:
                line, buffered = buffered.split(b"\n", 1)
                message = json.loads(line) if line.lstrip().startswith(b"{") else {}
                if message.get("id") == number and "method" not in message:
                    if "result" not in message:
                        raise SystemExit(f"{command}: {message}")
                    return message["result"]
            if not select.select([server.stdout], [], [], max(0, until - time.time()))[0]:
                raise SystemExit(f"{command}: no answer to {method}")
            more = os.read(server.stdout.fileno(), 65536)
            if not more:
                raise SystemExit(f"{command}: ended before it answered {method}")
            buffered += more

    try:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "versions", "version": "1"}}
        hello = ask("initialize", about)
        send({"method": "notifications/initialized"})
        found, cursor = [], None
        while True:
            page = ask("tools/list", {"cursor": cursor} if cursor else {})
            found += page["tools"]
            cursor = page.get("nextCursor")
            if not cursor:
                return {"instructions": hello.get("instructions"), "tools": found}
    finally:
        server.stdin.close()
        try:
            server.wait(3)
        except subprocess.TimeoutExpired:
            server.kill()


def closed(schema):
    """The schema for values of a sender, who sends only the fields that the schema names."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        schema["additionalProperties"] = False
    return schema


def validator(schema):
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema)


def is_exact(value):
    """Whether each integer is one that JSON keeps everywhere. Contracts ignore bounds beyond these."""
    if isinstance(value, (dict, list)):
        return all(is_exact(inner) for inner in (value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or abs(value) < 2**53


def values(schema):
    """Values that a schema allows. Arguments and structured results are always objects."""
    found = []
    schema = {"type": "object", **schema}

    @settings(max_examples=VALUES, derandomize=True, database=None, deadline=None,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(from_schema(closed(copy.deepcopy(schema))))
    def collect(value):
        found.append(value)

    collect()
    valid = validator(schema)
    return [value for value in found if valid.is_valid(value) and is_exact(value)]


def unnamed(value, schema):
    """Whether the value has a field that the schema does not name: a server ignores it silently."""
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        return any(
            name not in schema["properties"] or unnamed(inner, schema["properties"][name])
            for name, inner in value.items()
        )
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return any(unnamed(inner, schema["items"]) for inner in value)
    return False


def check(sender, receiver, breaks, counts):
    """Compares the verdict for one side with values. Returns the value that contradicts it, if any."""
    sent = values(sender)
    counts["values"] += len(sent)
    takes = validator(receiver)
    rejected = next((value for value in sent if not takes.is_valid(value)), None)
    if not breaks:
        counts["kept"] += 1
        return rejected
    if rejected is not None:
        counts["shown"] += 1
    elif any(unnamed(value, receiver) for value in sent):
        counts["ignored"] += 1
    else:
        counts["not shown"] += 1
    return None


def main():
    toolwright, folder = sys.argv[1], sys.argv[2]
    only = sys.argv[3:]
    wrong = 0
    totals = dict.fromkeys(["pairs", "tools", "values", "kept", "shown", "ignored", "not shown"], 0)
    for package, versions, arguments in SERVERS:
        if only and package not in only:
            continue
        files, lists = [], []
        for version in versions:
            listed = tools(installed(folder, package, version) + arguments, folder)
            file = os.path.join(folder, f"{package.replace('/', '+')}@{version}.json")
            json.dump(listed, open(file, "w"), indent=1)
            files.append(file)
            lists.append({tool["name"]: tool for tool in listed["tools"]})
        for place in range(1, len(versions)):
            ran = subprocess.run(
                [toolwright, "contract", "diff", "--json", files[place - 1], files[place]],
                capture_output=True, text=True,
            )
            if ran.returncode not in (0, 1):
                raise SystemExit(f"{files[place]}: {ran.stderr}")
            report = json.loads(ran.stdout)
            if (ran.returncode == 1) != bool(report["breaks"]):
                raise SystemExit(f"{files[place]}: exit code {ran.returncode} for {report['breaks']}")
            verdicts = {one["contract"]: one["breaks"] for one in report["contracts"]}
            old, new = lists[place - 1], lists[place]
            counts = dict.fromkeys(totals, 0)
            counts["pairs"] = 1
            for name in old:
                local = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
                breaks = verdicts.get(local, [])
                if name not in new:
                    if sorted(breaks) != ["inputs", "outputs", "stored_runs"]:
                        wrong += 1
                        print(f"WRONG: {package} {versions[place]} {name} is gone, and breaks {breaks}")
                    continue
                counts["tools"] += 1
                before, now = old[name], new[name]
                found = {"inputs": check(before["inputSchema"], now["inputSchema"], "inputs" in breaks, counts)}
                if "outputSchema" in before and "outputSchema" in now:
                    found["outputs"] = check(now["outputSchema"], before["outputSchema"], "outputs" in breaks, counts)
                elif "outputSchema" in before and "outputs" not in breaks:
                    found["outputs"] = "no output schema"
                for side, value in found.items():
                    if value is not None:
                        wrong += 1
                        print(f"WRONG: {package} {versions[place]} {name} {side}: {json.dumps(value)}")
            for key, count in counts.items():
                totals[key] += count
            print(f"{package} {versions[place - 1]} -> {versions[place]}: "
                  f"{len(old)} tools, {len(new)} now, breaks {report['breaks'] or 'nothing'}; {counts}")
    print(f"all: {totals}; wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
