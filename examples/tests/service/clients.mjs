// Drives the example `service` with the real clients of both protocols, and kills it meanwhile.
//
//   node clients.mjs PROGRAM
//
// Each client gets a service and a folder of its own. The model is a server of this program.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const [program] = process.argv.slice(2);
// The clients also print the errors that they throw.
console.error = () => {};
// `@ag-ui/client` reports a lost connection twice: to its caller, and to nobody.
process.on("uncaughtException", (error) => {
  if (error.message !== "terminated") {
    console.log(error.stack ?? error);
    process.exit(1);
  }
});
const numbers = Array.from({ length: 40 }, (_, number) => number).join(" ");

// A model that looks up or refunds the order that the user names, repeats what the tool said, and counts
// slowly.
const model = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const last = JSON.parse(body).messages.at(-1);
  const text = typeof last.content === "string" ? last.content : last.content.map((part) => part.text).join(" ");
  const number = last.role === "user" && text.match(/\d+/)?.[0];
  const deltas = [];
  if (number) {
    const name = text.includes("efund") ? "orders_refund" : "orders_find_order";
    const call = { index: 0, id: "call_1", type: "function", function: { name, arguments: `{"number": ${number}}` } };
    deltas.push([{ tool_calls: [call] }, null], [{}, "tool_calls"]);
  } else {
    const words = text.startsWith("count") ? numbers : text;
    deltas.push(...words.split(/(?<= )/).map((word) => [{ content: word }, null]), [{}, "stop"]);
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const [delta, finish_reason] of deltas) {
    const choices = [{ index: 0, delta, finish_reason }];
    response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices })}\n\n`);
    if (text.startsWith("count")) await sleep(30);
  }
  response.end("data: [DONE]\n\n");
});
model.listen(0, "127.0.0.1");
await once(model, "listening");

class Service {
  folder = mkdtempSync(join(tmpdir(), "service-"));
  port = 0;

  async start() {
    const env = {
      ...process.env,
      FOLDER: this.folder,
      PORT: String(this.port),
      OPENAI_API_KEY: "none",
      OPENAI_BASE_URL: `http://127.0.0.1:${model.address().port}`,
    };
    this.child = spawn(program, { env, stdio: ["ignore", "pipe", "inherit"] });
    const [line] = await once(this.child.stdout, "data");
    this.url = String(line).trim();
    this.port = new URL(this.url).port;
    return this;
  }

  async killAndStart() {
    this.child.kill("SIGKILL");
    await once(this.child, "exit");
    await this.start();
  }

  end() {
    this.child.kill("SIGKILL");
    rmSync(this.folder, { recursive: true });
  }
}

const headers = (user) => (user ? { authorization: `Bearer ${user}-key` } : {});

async function until(what, condition) {
  for (let n = 0; n < 1000; n += 1) {
    if (condition()) return;
    await sleep(10);
  }
  assert.fail(`${what} did not happen within 10 s`);
}

async function agUi(client) {
  const { HttpAgent } = await import(client);
  const service = await new Service().start();
  const open = (user, threadId, initialMessages = []) =>
    new HttpAgent({ url: `${service.url}/ag-ui`, headers: headers(user), threadId, initialMessages });
  let nth = 0;
  const say = (agent, content) => agent.addMessage({ id: `user-${(nth += 1)}`, role: "user", content });
  const text = (agent) => agent.messages.at(-1).content;
  const run = async (agent, parameters = {}, subscriber = {}) => (await agent.runAgent(parameters, subscriber)).result;

  // Two users, with conversations of the same name.
  for (const [user, expected] of [["kate", /a lamp, on its way/], ["tom", /The user has no order 7\./]]) {
    const agent = open(user, "orders");
    say(agent, "Where is order 7?");
    assert.match(await run(agent), expected);
    assert.equal(agent.messages.map(({ role }) => role).join(" "), "user assistant tool assistant");
  }
  const nobody = open(undefined, "orders");
  say(nobody, "Where is order 7?");
  await assert.rejects(run(nobody), { status: 401 });

  // An approval that survives a crash, and that another user cannot give.
  const kate = open("kate", "refund");
  say(kate, "Refund order 7.");
  await run(kate);
  const [question] = kate.pendingInterrupts;
  assert.equal(question.metadata.toolwright.effect, "irreversible");
  const resume = [{ interruptId: question.id, status: "resolved", payload: { approved: true } }];
  const tom = open("tom", "refund");
  tom.pendingInterrupts = [question];
  await assert.rejects(run(tom, { resume }), { status: 404 });
  await service.killAndStart();
  assert.equal(await run(kate, { resume }), "Order 7 is refunded.");
  say(kate, "Refund order 7.");
  await run(kate);
  const payload = { approved: false, reason: "It is refunded." };
  const refusal = [{ interruptId: kate.pendingInterrupts[0].id, status: "resolved", payload }];
  assert.match(await run(kate, { resume: refusal }), /It is refunded\./);

  // A reader that leaves and comes back.
  const reader = open("kate", "count");
  say(reader, "count");
  let words = 0;
  const leave = { onTextMessageContentEvent: () => void ((words += 1) === 5 && reader.abortRun()) };
  await run(reader, {}, leave).catch(() => {});
  assert.ok(text(reader).length < numbers.length, text(reader));
  assert.equal(await run(reader), numbers);
  assert.equal(text(reader), numbers);

  // A reader whose service is killed in the middle of a text.
  const unlucky = open("kate", "killed");
  say(unlucky, "count");
  words = 0;
  let started;
  const kill = { onTextMessageContentEvent: () => void ((words += 1) === 5 && (started = service.killAndStart())) };
  await run(unlucky, {}, kill).catch(() => {});
  await started;
  assert.equal(await run(unlucky), numbers);
  const { messages } = await (await fetch(`${service.url}/ag-ui/killed/messages`, { headers: headers("kate") })).json();
  assert.deepEqual(messages.map(({ content }) => content), ["count", numbers]);
  service.end();
  console.log(`${client}: two users, an approval, a reader that comes back, two kills`);
}

async function uiMessages(version) {
  const { Chat } = await import(version === 7 ? "@ai-sdk/react-4" : "@ai-sdk/react-3");
  const sdk = await import(`ai-${version}`);
  const service = await new Service().start();
  const query = version === 7 ? "?version=7" : "";
  // The helper of version 6 waits for calls that the service makes only after the answers.
  const allAnswered = ({ messages }) => {
    const states = messages.at(-1).parts.map((part) => part.state);
    return states.includes("approval-responded") && !states.includes("approval-requested");
  };
  const open = (user, id, messages = []) => {
    const transport = new sdk.DefaultChatTransport({ api: `${service.url}/chat${query}`, headers: headers(user) });
    return new Chat({ id, messages, transport, sendAutomaticallyWhen: allAnswered });
  };
  const texts = (chat) =>
    chat.lastMessage.parts.filter((part) => part.type === "text").map((part) => part.text).join("|");
  const tool = (chat) => chat.lastMessage.parts.find((part) => part.type === "dynamic-tool");
  const stored = async (user, id) =>
    (await fetch(`${service.url}/chat/${id}/messages`, { headers: headers(user) })).json();

  for (const [user, expected] of [["tom", /a chair, delivered/], ["kate", /The user has no order 8\./]]) {
    const chat = open(user, "orders");
    await chat.sendMessage({ text: "Where is order 8?" });
    assert.equal(chat.status, "ready", chat.error?.stack);
    assert.match(texts(chat), expected);
  }
  const nobody = open(undefined, "orders");
  await nobody.sendMessage({ text: "Where is order 8?" });
  assert.match(nobody.error.message, /authorization/);

  const tom = open("tom", "refund");
  await tom.sendMessage({ text: "Refund order 8." });
  assert.equal(tool(tom).state, "approval-requested");
  const { id } = tool(tom).approval;
  const kate = open("kate", "refund", structuredClone(tom.messages));
  await kate.addToolApprovalResponse({ id, approved: true });
  await until("the refusal", () => kate.status === "error");
  assert.match(kate.error.message, /^there is no run/);
  await service.killAndStart();
  await tom.addToolApprovalResponse({ id, approved: true });
  await until("the refund", () => tom.status === "ready" && texts(tom) === "Order 8 is refunded.");
  assert.equal(tool(tom).state, "output-available");

  const leaver = open("tom", "count");
  const sending = leaver.sendMessage({ text: "count" });
  await until("a word", () => leaver.lastMessage?.role === "assistant" && texts(leaver).length > 5);
  await leaver.stop();
  await sending;
  assert.ok(texts(leaver).length < numbers.length);
  const page = open("tom", "count", await stored("tom", "count"));
  await page.resumeStream();
  assert.equal(texts(page), numbers);

  const unlucky = open("tom", "killed");
  const cut = unlucky.sendMessage({ text: "count" });
  await until("a word", () => unlucky.lastMessage?.role === "assistant" && texts(unlucky).length > 5);
  await service.killAndStart();
  await cut;
  assert.equal(unlucky.status, "error");
  await unlucky.resumeStream();
  // Version 6 cannot take back what was lost; the messages of the service have it once.
  const again = open("tom", "killed", await stored("tom", "killed"));
  assert.equal(texts(again), numbers);
  if (version === 7) assert.equal(texts(unlucky), numbers);
  service.end();
  console.log(`ai ${version}: two users, an approval, a reader that comes back, two kills`);
}

await agUi("@ag-ui/client");
await agUi("@ag-ui/client-before-1");
await uiMessages(6);
await uiMessages(7);
process.exit(0);
