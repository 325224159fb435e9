#!/usr/bin/env python3
"""Measures what each form of adding found tools costs: bytes of requests, and tokens that no prefix
cache has.

    CONTRACT_SERVER=contract_server.py python3 cli/tests/found_tools.py target/debug/toolwright

An MCP server in this file has 1,000 tools: those of `toolsets/mcp/tests/recorded`, repeated with other
names. A scripted model works for 30 rounds. In 4 of them it searches, in the others it calls a tool that
it found, whose result has 1 kB. The requests with the tools at the end of the list are those of the
command. The other forms are computed from them, because the command uses them only with the providers'
own addresses, or not at all:

- `tool_reference` and `additional_tools`: what is found stands in the conversation.
- `call_tool`: one tool calls the others by name, and the result of a search has the schemas.
- all tools: each request has them, and there is nothing to find.
- hosted search: OpenAI searches. Each request has all tools, and the model sees all names and
  descriptions.

A prompt has the tools, then the system message, then the messages. A tool that is found there stands
where the provider puts it. A prefix cache has what a request shares with an earlier one, from the
start. A token counts as 4 bytes.
"""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TOOLS, ROUNDS, SEARCHES = 1_000, 30, [0, 7, 14, 21]
QUERIES = ["read file", "read graph", "list directory", "search nodes"]
RECORDED = pathlib.Path(__file__).resolve().parents[2] / "toolsets/mcp/tests/recorded"


def tools():
    """The tools of the server. Each has a name of its own."""
    recorded = [json.loads((RECORDED / f"{name}.json").read_text()) for name in ("everything", "filesystem", "memory")]
    # What is outside of the schema is not sent to a model.
    keys = ("name", "description", "inputSchema")
    of_all = [{key: tool[key] for key in keys if key in tool} for tool in listed(recorded)]
    copies = [dict(of_all[at % len(of_all)]) for at in range(TOOLS)]
    for at, tool in enumerate(copies):
        tool["name"] = f"team{at // len(of_all)}_{tool['name']}"
    return copies


def listed(value):
    """The tools in a recording, wherever they stand."""
    if isinstance(value, dict) and "inputSchema" in value:
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from listed(part)


def serve():
    """An MCP server over standard input and output."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                info = {"name": "teams", "version": "1"}
                answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                answer["result"] = {"tools": tools()}
            case "tools/call":
                answer["result"] = {"content": [{"type": "text", "text": f"{message['id']:06} result. " * 63}]}
            case _:
                answer["error"] = {"code": -32601, "message": "no such method"}
        print(json.dumps(answer), flush=True)


def requests(program, model, path, *options):
    """The bodies of the requests of one run."""
    # Calls whose arguments do not fit are answered with an error, so the tools have to be simple.
    calls = ["read_file", "read_graph", "list_directory", "search_nodes"]
    arguments = {"read_file": {"path": "a"}, "read_graph": {}, "list_directory": {"path": "a"}, "search_nodes": {"query": "a"}}
    steps, searched = [], 0
    for at in range(ROUNDS - 1):
        if at in SEARCHES:
            steps.append({"calls": [{"name": "find_tools", "arguments": {"query": QUERIES[searched]}}]})
            searched += 1
        else:
            name = calls[searched - 1]
            steps.append({"calls": [{"name": f"team1_{name}", "arguments": arguments[name]}]})
    steps.append({"text": "done"})
    with tempfile.TemporaryDirectory() as folder:
        plan, report = f"{folder}/plan.json", f"{folder}/report.jsonl"
        pathlib.Path(plan).write_text(json.dumps({"steps": steps}))
        words = ["python3", os.environ["CONTRACT_SERVER"], "--reject", "--plan", plan, "--report", report]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().strip().rpartition(":")[2]
            words = [program, "run", "--no-config", "--no-journal", "--tools", "none", "--max-model-calls", "99",
                     "--mcp", f"{sys.executable} {os.path.abspath(__file__)} serve",
                     "--model", model, "--base-url", f"http://127.0.0.1:{port}/{path}", *options, "Do it."]
            environment = dict(os.environ, HOME=folder, OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k", GEMINI_API_KEY="k")
            ran = subprocess.run(words, env=environment, capture_output=True, text=True)
        finally:
            server.kill()
        bodies = [json.loads(line)["body"] for line in open(report)]
    if ran.returncode != 0 or len(bodies) != ROUNDS or " failed" in ran.stderr:
        failures = [line[:200] for line in ran.stderr.splitlines() if " failed" in line or "error" in line]
        sys.exit(f"{model}: exit code {ran.returncode}, {len(bodies)} requests, {failures}")
    return bodies


def text(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def prompt(body):
    """What the model reads, in the order of the cache."""
    listed = body.get("tools", [])
    deferred = {tool["name"]: {**tool, "defer_loading": None} for tool in listed if tool.get("defer_loading")}
    shown = [tool for tool in listed if not tool.get("defer_loading")]

    def expanded(value):
        if isinstance(value, list):
            return [expanded(part) for part in value]
        if isinstance(value, dict):
            if value.get("type") == "tool_reference":
                return deferred[value["tool_name"]]
            # The mark of the end of the cached part is not a part of the prompt.
            return {key: expanded(part) for key, part in value.items() if key != "cache_control"}
        return value

    system = [body.get(key) for key in ("system", "systemInstruction", "instructions")]
    messages = body.get("messages") or body.get("input") or body.get("contents")
    return "".join(text(expanded(part)) for part in [*shown, system, *messages])


def with_call_tool(bodies):
    """The requests of Chat Completions, if one tool called all others."""
    bodies = copy.deepcopy(bodies)
    definitions = {tool["function"]["name"]: tool["function"] for body in bodies for tool in body["tools"]}
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}}, "required": ["name", "arguments"]}
    description = "Call a tool that find_tools found, by its name, with arguments that fit its schema."
    for body in bodies:
        body["tools"] = body["tools"][:1] + [{"type": "function", "function": {"name": "call_tool", "description": description, "parameters": schema}}]
        for message in body["messages"]:
            for call in message.get("tool_calls", []):
                function = call["function"]
                if function["name"] != "find_tools":
                    function["arguments"] = f'{{"name":"{function["name"]}","arguments":{function["arguments"]}}}'
                    function["name"] = "call_tool"
            names = found(message["content"]) if message["role"] == "tool" else []
            if names:
                message["content"] = "You can call these tools now:\n" + "\n".join(text(definitions[name]) for name in names)
    return bodies


def found(result):
    """The names of the tools that a search found, from its result."""
    first, *lines = result.split("\n")
    return [line[2:].split(":")[0] for line in lines] if first.startswith("You can call these tools") else []


def with_tool_references(bodies):
    """The requests of Anthropic, if the results refer to the tools."""
    bodies = copy.deepcopy(bodies)
    for body in bodies:
        for tool in body["tools"][1:]:
            tool["defer_loading"] = True
            tool.pop("cache_control", None)
        for message in body["messages"]:
            for block in message["content"]:
                if block["type"] == "tool_result" and (names := found(block["content"])):
                    block["content"] = [{"type": "tool_reference", "tool_name": name} for name in names]
    return bodies


def with_additional_tools(bodies):
    """The requests of Responses, if the tools stand behind the results."""
    bodies = copy.deepcopy(bodies)
    for body in bodies:
        definitions = {tool["name"]: tool for tool in body["tools"]}
        body["tools"], items = body["tools"][:1], body["input"]
        body["input"] = []
        for item in items:
            body["input"].append(item)
            if item.get("type") == "function_call_output" and (names := found(item["output"])):
                added = [definitions[name] for name in names]
                body["input"].append({"type": "additional_tools", "role": "developer", "tools": added})
    return bodies


def with_hosted_search(bodies):
    """The requests of Responses with the search of OpenAI, and the prompts."""
    every = [{"type": "function", "name": tool["name"], "description": tool.get("description", ""), "parameters": tool["inputSchema"], "defer_loading": True} for tool in tools()]
    bodies = [{**body, "tools": every + [{"type": "tool_search"}]} for body in bodies]
    seen = "".join(text([tool["name"], tool["description"]]) for tool in every)
    return bodies, [seen + prompt({**body, "tools": []}) for body in bodies]


def report(name, bodies, prompts=None):
    """Prints one line of the table."""
    prompts = [part.encode() for part in prompts or map(prompt, bodies)]
    sizes = [len(text(body).encode()) for body in bodies]
    shared = [0] + [len(os.path.commonprefix([one, other])) for one, other in zip(prompts, prompts[1:])]
    read, cached = sum(map(len, prompts)) / 4_000, sum(shared) / 4_000
    lost = sum(shared[at] < len(prompts[at - 1]) * 0.9 for at in range(1, len(prompts)))
    print(f"| {name} | {sizes[0] / 1000:.1f} | {sizes[-1] / 1000:.1f} | {sum(sizes) / 1000:.0f} | {read:.0f} | {cached:.0f} "
          f"| {read - cached:.0f} | {lost} |")


def main():
    program = sys.argv[1]
    print(f"{TOOLS} tools, {ROUNDS} rounds, {len(SEARCHES)} searches")
    print("| form | first request, kB | last, kB | all, kB | tokens read, thousands | of these cached | not cached | cache lost, times |")
    print("|---|---|---|---|---|---|---|---|")
    deferred = "--mcp-deferred"
    behind = requests(program, "anthropic:claude-sonnet-4-5", "v1", deferred)
    every = [{"name": tool["name"], "description": tool.get("description", ""), "input_schema": tool["inputSchema"]} for tool in tools()]
    report("Anthropic, all tools", [{**body, "tools": every} for body in behind])
    report("Anthropic, end of the list", behind)
    report("Anthropic, `tool_reference`", with_tool_references(behind))
    responses = requests(program, "openai:gpt-5.4", "v1", "--api", "responses", deferred)
    report("Responses, end of the list", responses)
    report("Responses, `additional_tools`", with_additional_tools(responses))
    report("Responses, hosted `tool_search`", *with_hosted_search(with_additional_tools(responses)))
    chat = requests(program, "openai:gpt-4.1", "v1", "--api", "chat", deferred)
    report("Chat Completions, end of the list", chat)
    report("Chat Completions, `call_tool`", with_call_tool(chat))
    report("Gemini, end of the list", requests(program, "gemini:gemini-2.5-flash", "v1beta", deferred))


serve() if sys.argv[1] == "serve" else main()
