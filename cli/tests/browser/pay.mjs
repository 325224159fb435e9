// An MCP server with a tool that pays, and never answers.
import { createInterface } from "node:readline";

const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "bank", version: "1" } }),
  "tools/list": () => ({
    tools: [{
      name: "pay",
      description: "Pay somebody.",
      inputSchema: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
      annotations: { destructiveHint: true, idempotentHint: false, readOnlyHint: false },
    }],
  }),
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const result = answers[method]?.(params);
  if (result) process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
});
