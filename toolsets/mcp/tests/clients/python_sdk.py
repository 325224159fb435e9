"""The Python SDK: both revisions, over standard input and output and over HTTP."""

import asyncio
import http.client
import json
import sys
import urllib.parse

from mcp import Client, MCPError, StdioServerParameters

server, url = sys.argv[1:]


async def check(client):
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools][:3] == ["add", "store_note", "hello"], tools
    assert tools[0].annotations.read_only_hint and not tools[1].annotations.read_only_hint

    result = await client.call_tool("add", {"a": 2, "b": 3})
    assert result.structured_content == {"result": 5} and not result.is_error, result

    result = await client.call_tool("add", {"a": "many"})
    assert result.is_error and "$.a" in result.content[0].text, result
    try:
        result = await client.call_tool("unknown", {})
        raise AssertionError(result)
    except MCPError as error:
        assert error.error.code == -32602, error
    for how in ["panic", "panic_on_drop", "other"]:
        result = await client.call_tool("fail", {"how": how})
        assert result.is_error and "secret" not in str(result), result

    received = []

    async def progress(done, total, message):
        received.append((done, message))

    await client.call_tool("tell", {"times": 3}, progress_callback=progress)
    assert received == [(1.0, "inner started"), (2.0, "inner started"), (3.0, "inner started")], received

    # The client stops waiting for a call, and the server continues.
    try:
        await asyncio.wait_for(client.call_tool("wait", {}), 0.5)
        raise AssertionError("it waited for nothing")
    except asyncio.TimeoutError:
        pass

    calls = [client.call_tool("add", {"a": a, "b": 0}) for a in range(200)]
    sums = [result.structured_content["result"] for result in await asyncio.gather(*calls)]
    assert sums == list(range(200)), sums


def forged(header, value):
    address = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(address.hostname, address.port)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        header: value,
    }
    connection.request("POST", address.path, body, headers)
    return connection.getresponse().status


async def main():
    targets = {"stdio": StdioServerParameters(command=server), "http": url}
    for name, target in targets.items():
        for mode, revision in [("auto", "2026-07-28"), ("legacy", "2025-11-25")]:
            async with Client(target, mode=mode) as client:
                assert client.protocol_version == revision, client.protocol_version
                await check(client)
            print(f"Python SDK, {name}, {revision}: passed")
    assert forged("Origin", "https://evil.example") == 403
    assert forged("Host", "evil.example") == 403
    print("forged Origin and Host: refused")


asyncio.run(asyncio.wait_for(main(), 300))
