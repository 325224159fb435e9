// Uses a service with the core of CopilotKit, on which its React components are built.
//
//   node copilot.mjs ADDRESS

import assert from "node:assert/strict";
import { CopilotKitCore } from "@copilotkit/core";
import { HttpAgent } from "@ag-ui/client-before-1";

const [address] = process.argv.slice(2);
const headers = { "x-user": "copilot" };
const agent = new HttpAgent({ url: `${address}/ag-ui`, headers, threadId: "copilot", agentId: "default" });
const core = new CopilotKitCore({ agents__unsafe_dev_only: { default: agent }, headers });
core.subscribe({ onError: ({ error }) => assert.fail(error) });

agent.addMessage({ id: "1", role: "user", content: "look" });
await core.runAgent({ agent });
agent.addMessage({ id: "2", role: "user", content: "pay" });
await core.runAgent({ agent });
const [{ id }] = agent.pendingInterrupts;
const resume = [{ interruptId: id, status: "resolved", payload: { approved: true } }];
await core.runAgent({ agent, resume });
const one = "user assistant tool assistant";
assert.equal(agent.messages.map((message) => message.role).join(" "), `${one} ${one}`);
assert.equal(agent.messages.at(-1).content, "Result: 5 to Ann");
console.log("@copilotkit/core: a call, and an approval");
process.exit(0);
