"""The tools of a tau2 domain as an MCP server, over HTTP on 127.0.0.1.

    server.py airline|retail [PORT]

Prints its address once it listens. Names, descriptions, schemas, results and errors are tau2's.

A request has the header `attempt`. All requests with the same value share one copy of the
domain's database; the first of them makes it. A header is used because the protocol has no
sessions since its revision 2026-07-28.

Two tools are added; do not show them to a model. `database_at_start` returns the whole database
before any call. `changed_rows` returns the rows of this attempt that differ from it, with `null`
for a row that is no longer there, and deletes the copy. Rows are compared as JSON text, which is
what tau2's evaluator hashes.
"""

import json
import socket
import sys

import uvicorn
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from domains import ToolCall, environment

NO_ARGUMENTS = {"type": "object", "properties": {}}
DATABASE_AT_START = Tool(
    name="database_at_start",
    description="Returns the whole database before any call.",
    input_schema=NO_ARGUMENTS,
)
CHANGED_ROWS = Tool(
    name="changed_rows",
    description="Returns the rows that were changed, and deletes this attempt's copy.",
    input_schema=NO_ARGUMENTS,
)


def main(domain: str, port: int) -> None:
    functions = [tool.openai_schema["function"] for tool in environment(domain).get_tools()]
    tools = [
        Tool(name=it["name"], description=it["description"], input_schema=it["parameters"])
        for it in functions
    ]
    at_start = rows_of(environment(domain))
    attempts = {}

    async def list_tools(ctx, params) -> ListToolsResult:
        return ListToolsResult(tools=[*tools, DATABASE_AT_START, CHANGED_ROWS])

    async def call_tool(ctx, params) -> CallToolResult:
        if params.name == DATABASE_AT_START.name:
            return result(as_json(at_start))
        attempt = ctx.request.headers["attempt"]
        if attempt not in attempts:
            attempts[attempt] = environment(domain)
        if params.name == CHANGED_ROWS.name:
            return result(as_json(changed_rows(at_start, rows_of(attempts.pop(attempt)))))
        call = ToolCall(id="", name=params.name, arguments=params.arguments or {})
        response = attempts[attempt].get_response(call)
        return result(response.content, response.error)

    server = Server(f"tau2-{domain}", on_list_tools=list_tools, on_call_tool=call_tool)
    listener = socket.create_server(("127.0.0.1", port))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = server.streamable_http_app(host="127.0.0.1", json_response=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def rows_of(world) -> dict[str, dict[str, str]]:
    """Returns the tables of a database, each with its rows as JSON."""
    return {
        name: {key: json.dumps(row, default=str) for key, row in table.items()}
        for name, table in world.tools.db.model_dump().items()
    }


def changed_rows(at_start: dict, at_end: dict) -> dict[str, dict[str, str]]:
    assert at_start.keys() == at_end.keys()
    return {
        name: {
            key: table.get(key, "null")
            for key in at_start[name].keys() | table.keys()
            if table.get(key) != at_start[name].get(key)
        }
        for name, table in at_end.items()
    }


def as_json(tables: dict[str, dict[str, str]]) -> str:
    """Returns tables whose rows are JSON as one JSON text."""
    texts = []
    for name, table in tables.items():
        rows = ", ".join(f"{json.dumps(key)}: {row}" for key, row in table.items())
        texts.append(f"{json.dumps(name)}: {{{rows}}}")
    return f"{{{', '.join(texts)}}}"


def result(text: str, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
