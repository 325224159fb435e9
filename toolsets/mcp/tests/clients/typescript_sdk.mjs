// A TypeScript SDK, 1 or 2: each revision it speaks, over standard input and output and
// over HTTP.

import assert from "node:assert/strict";

const [version, server, url] = process.argv.slice(2);
const v1 = "@modelcontextprotocol/sdk/client";
const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }] =
  await Promise.all(
    version === "1"
      ? [import(`${v1}/index.js`), import(`${v1}/stdio.js`), import(`${v1}/streamableHttp.js`)]
      : [
          import("@modelcontextprotocol/client"),
          import("@modelcontextprotocol/client/stdio"),
          import("@modelcontextprotocol/client"),
        ],
  );

// The first knows a schema for results, the second its options in that place.
const call = (client, name, args, options) =>
  version === "1"
    ? client.callTool({ name, arguments: args }, undefined, options)
    : client.callTool({ name, arguments: args }, options);

async function check(client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.slice(0, 3).map((tool) => tool.name), ["add", "store_note", "hello"]);

  let result = await call(client, "add", { a: 2, b: 3 });
  assert.deepEqual(result.structuredContent, { result: 5 });
  result = await call(client, "add", { a: "many" });
  assert.ok(result.isError && result.content[0].text.includes("$.a"), JSON.stringify(result));
  await assert.rejects(call(client, "unknown", {}), (error) => error.code === -32602);
  for (const how of ["panic", "panic_on_drop", "other"]) {
    result = await call(client, "fail", { how });
    assert.ok(result.isError && !JSON.stringify(result).includes("secret"));
  }

  // One with pauses: these SDKs drop progress that is read together with the answer.
  const received = [];
  const onprogress = (step) => received.push(step.progress);
  await call(client, "test_tool_with_progress", {}, { onprogress });
  assert.deepEqual(received, [1, 2, 3]);

  const abort = new AbortController();
  setTimeout(() => abort.abort(), 300);
  await assert.rejects(call(client, "wait", {}, { signal: abort.signal }));

  const calls = Array.from({ length: 200 }, (_, a) => call(client, "add", { a, b: 0 }));
  const sums = (await Promise.all(calls)).map((result) => result.structuredContent.result);
  assert.deepEqual(sums, Array.from({ length: 200 }, (_, a) => a));
}

const modes =
  version === "1" ? ["2025-11-25"] : ["2026-07-28", "2025-11-25"];
for (const [name, transport] of [
  ["stdio", () => new StdioClientTransport({ command: server })],
  ["http", () => new StreamableHTTPClientTransport(new URL(url))],
]) {
  for (const revision of modes) {
    const mode = revision === "2025-11-25" ? "legacy" : "auto";
    const client = new Client(
      { name: "check", version: "1.0.0" },
      version === "1" ? {} : { versionNegotiation: { mode } },
    );
    await client.connect(transport());
    if (version === "2") assert.equal(client.getNegotiatedProtocolVersion(), revision);
    await check(client);
    await client.close();
    console.log(`TypeScript SDK v${version}, ${name}, ${revision}: passed`);
  }
}
process.exit(0);
