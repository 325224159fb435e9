"""Serves one suite of AgentDojo as an MCP server, one run after the other.

    server.py --suite NAME --control PORT [--attack NAME]

The tools are served over standard input and output. The program under test connects there, and sees
nothing else. The harness listens on PORT of 127.0.0.1. It sends requests as JSON lines, and gets one
line for each:

    {"do": "tasks"}                               the tasks of the suite
    {"do": "reset", "user": ID, "injection": ID}  a new environment; no injection: null
    {"do": "judge", "answer": TEXT}               AgentDojo's verdicts on the run since the reset
"""

import argparse
import asyncio
import json
import os
import sys

import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


def load(name, attack):
    # AgentDojo takes seconds to import. Clients do not wait that long for a server's first reply.
    from dojo import Suite

    return Suite(name, attack)


def end_if_failed(loaded):
    if error := loaded.exception():
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


async def control(suite, reader, writer):
    while line := await reader.readline():
        request = json.loads(line)
        do = request.pop("do")
        answer = getattr(await suite, do)(**request)
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite", required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--attack", default="important_instructions")
    arguments = parser.parse_args()
    suite = asyncio.create_task(asyncio.to_thread(load, arguments.suite, arguments.attack))
    suite.add_done_callback(end_if_failed)

    async def list_tools(_context, _params):
        return types.ListToolsResult(tools=(await suite).listed())

    async def call_tool(_context, params):
        text, failed = (await suite).call(params.name, params.arguments or {})
        content = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=content, is_error=failed)

    server = Server(
        "agentdojo", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool
    )
    # Before the tools are served, so that the harness has the connection once it has the tools.
    connection = await asyncio.open_connection("127.0.0.1", arguments.control)
    commands = asyncio.create_task(control(suite, *connection))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
    commands.cancel()


asyncio.run(main())
