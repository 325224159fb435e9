// Uses a service with the real client.
//
//   node service.mjs ADDRESS ANSWERS CLIENT   writes each answer of the server to a file in the folder
//                                             ANSWERS; CLIENT is the package

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [address, folder, client] = process.argv.slice(2);
const { HttpAgent, buildResumeArray } = await import(client);
// Versions before 1.0 do not know of stopped runs.
const isOld = client !== "@ag-ui/client";
const user = isOld ? "kay" : "kate";
mkdirSync(folder, { recursive: true });
const warnings = [];
console.warn = (...texts) => warnings.push(texts.join(" "));
// The client also prints the errors that it throws.
console.error = () => {};

let answers = 0;

/** Returns an agent whose answers are written to files. */
function agent(threadId, initialMessages = [], of = user) {
  return new HttpAgent({
    url: `${address}/ag-ui`,
    headers: { "x-user": of },
    threadId,
    initialMessages,
    fetch: async (url, request) => {
      const response = await fetch(url, request);
      if (!response.ok) return response;
      const [given, kept] = response.body.tee();
      const file = join(folder, `service-of-${user}-${(answers += 1)}.jsonl`);
      new Response(kept).text().then(
        (text) => {
          const events = text.split("\n").filter((line) => line.startsWith("data:"));
          writeFileSync(file, events.map((line) => line.slice(5).trim()).join("\n") + "\n");
        },
        () => {}, // The connection was closed.
      );
      return new Response(given, { status: response.status, headers: response.headers });
    },
  });
}

let nth = 0;
function say(agent, content) {
  agent.addMessage({ id: `user-${(nth += 1)}`, role: "user", content });
}

/** Runs an agent, and returns what its subscribers hear of the end. */
async function run(agent, parameters = {}, subscriber = {}) {
  const heard = { events: [] };
  const { result, newMessages } = await agent.runAgent(parameters, {
    onEvent: ({ event }) => void heard.events.push(event),
    onRunFinishedEvent: ({ outcome, interrupts, event }) => {
      Object.assign(heard, { outcome, interrupts, usage: event.usage, metadata: event.metadata });
    },
    onRunErrorEvent: ({ event }) => Object.assign(heard, { error: event }),
    ...subscriber,
  });
  return Object.assign(heard, { result, newMessages });
}

const text = (agent) => agent.messages.at(-1).content;
const roles = (agent) => agent.messages.map((message) => message.role).join(" ");
const post = (path) =>
  fetch(`${address}${path}`, { method: "POST", headers: { "x-user": user } });
const get = async (path, of = user) =>
  (await fetch(`${address}${path}`, { headers: { "x-user": of } })).json();

async function shows(name, check) {
  await check();
  console.log(`  ${name}`);
}

await shows("a text with reasoning, and a second message", async () => {
  const kate = agent("think");
  say(kate, "think");
  const { result, usage, metadata, outcome } = await run(kate);
  assert.equal(result, "Hello Ann, how are you?");
  assert.equal(roles(kate), "user reasoning assistant");
  assert.deepEqual(kate.messages.slice(1).map((message) => message.content), [
    "Let me think.",
    "Hello Ann, how are you?",
  ]);
  const counts = { inputTokens: 20, outputTokens: 5, totalTokens: 25 };
  assert.deepEqual(usage, [{ model: "small", ...counts }]);
  assert.deepEqual([outcome, metadata.toolwright.ending], ["success", "answered"]);
  say(kate, "and now?");
  assert.equal((await run(kate)).result, "You said: and now?");
});

await shows("a call whose arguments are streamed", async () => {
  const kate = agent("look");
  say(kate, "look");
  const pieces = [];
  await run(kate, {}, { onToolCallArgsEvent: ({ event }) => void pieces.push(event.delta) });
  assert.ok(pieces.length > 1);
  assert.equal(roles(kate), "user assistant tool assistant");
  assert.deepEqual(JSON.parse(kate.messages[1].toolCalls[0].function.arguments), { name: "Ann" });
  assert.equal(kate.messages[2].content, "Ann is here");
  assert.equal(text(kate), "Result: Ann is here");
});

const pay = async (thread, payload, status = "resolved") => {
  const kate = agent(thread);
  say(kate, "pay");
  const { outcome, interrupts } = await run(kate);
  assert.equal(outcome, "interrupt");
  assert.equal(interrupts[0].toolCallId, kate.messages[1].toolCalls[0].id);
  assert.equal(interrupts[0].responseSchema.properties.editedArgs.properties.amount.type, "integer");
  const responses = { [interrupts[0].id]: { status, payload } };
  const resume = buildResumeArray(kate.pendingInterrupts, responses);
  const { result, usage } = await run(kate, { resume });
  assert.equal(usage[0].inputTokens, 20);
  assert.deepEqual(kate.pendingInterrupts, []);
  assert.equal(roles(kate), "user assistant tool assistant");
  return { kate, result, resume };
};

await shows("an approval", async () => {
  const { result } = await pay("approve", { approved: true });
  assert.equal(result, "Result: 5 to Ann");
});

await shows("a refusal with a reason, and without one", async () => {
  const { result } = await pay("refuse", { approved: false, reason: "Too much." });
  assert.match(result, /Too much\./);
  assert.match((await pay("cancel", undefined, "cancelled")).result, /closed the question/);
});

await shows("an approval with other arguments, and the same answer again", async () => {
  const edited = { approved: true, editedArgs: { to: "Bob", amount: 6 } };
  const { kate, result, resume } = await pay("edit", edited);
  assert.match(result, /6 to Bob$/);
  const before = structuredClone(kate.messages);
  assert.match((await run(kate, { resume })).result, /6 to Bob$/);
  assert.deepEqual(kate.messages, before);
  resume[0].payload = { approved: false };
  await assert.rejects(run(kate, { resume }), { status: 409 });
});

await shows("arguments that do not fit, and a wrong payload", async () => {
  const kate = agent("misfit");
  say(kate, "pay");
  const { interrupts } = await run(kate);
  const answer = (payload) =>
    run(kate, { resume: [{ interruptId: interrupts[0].id, status: "resolved", payload }] });
  const misfit = { approved: true, editedArgs: { to: 7 } };
  await assert.rejects(answer(misfit), { status: 422, message: /amount|to/ });
  await assert.rejects(answer({ yes: true }), { status: 400, message: /approved/ });
  assert.equal((await answer({ approved: true })).result, "Result: 5 to Ann");
});

await shows("two questions of which one is answered first", async () => {
  const kate = agent("twice");
  say(kate, "pay twice");
  const { interrupts } = await run(kate);
  assert.equal(interrupts.length, 2);
  const approve = { status: "resolved", payload: { approved: true } };
  const one = { interruptId: interrupts[1].id, ...approve };
  // Another client, because this one knows that both have to be answered.
  const other = agent("twice", kate.messages);
  const { outcome } = await run(other, { resume: [one] });
  assert.equal(outcome, "interrupt");
  assert.deepEqual(other.pendingInterrupts.map((open) => open.id), [interrupts[0].id]);
  await run(other, { resume: [{ interruptId: interrupts[0].id, ...approve }] });
  assert.equal(roles(other), "user assistant tool tool assistant");
});

await shows("an agent below, whose call waits", async () => {
  const kate = agent("delegate");
  say(kate, "delegate");
  const { interrupts, events } = await run(kate);
  const started = events.find((event) => event.type === "SUBAGENT_STARTED");
  assert.equal(started.name, "helper");
  assert.equal(interrupts[0].subagentRunId, started.subagentRunId);
  const suspended = events.find((event) => event.type === "SUBAGENT_FINISHED");
  assert.deepEqual(suspended.outcome, { type: "suspended", interruptIds: [interrupts[0].id] });
  const resume = [{ interruptId: interrupts[0].id, status: "resolved", payload: { approved: true } }];
  const second = await run(kate, { resume });
  assert.match(second.result, /5 to Ann/);
  const own = kate.messages.filter((message) => message.subagentRunId === started.subagentRunId);
  assert.deepEqual(own.map((message) => message.role), ["assistant", "tool", "assistant"]);
});

await shows("a lost connection in the middle of a text", async () => {
  const kate = agent("lost");
  say(kate, "count");
  let deltas = 0;
  await run(kate, {}, {
    onTextMessageContentEvent: () => {
      if ((deltas += 1) === 10) kate.abortRun();
    },
  });
  const part = text(kate);
  assert.ok(part.startsWith("0 1 2") && !part.includes("50"), part);
  const whole = Array.from({ length: 60 }, (_, number) => number).join(" ");
  const { newMessages, events } = await run(kate);
  assert.equal(text(kate), whole);
  assert.deepEqual([newMessages.length, roles(kate)], [0, "user assistant"]);
  assert.ok(events.filter((event) => event.type === "TEXT_MESSAGE_CONTENT").length > 10);
  // Once more, when the run is over.
  assert.equal((await run(kate)).result, whole);
  assert.equal(text(kate), whole);
});

await shows("a reply that the model loses", async () => {
  const kate = agent("lose");
  say(kate, "lose");
  const seen = [];
  await run(kate, {}, { onMessagesChanged: ({ messages }) => void seen.push(messages.at(-1).content) });
  assert.ok(seen.includes("This "), String(seen));
  assert.deepEqual([text(kate), roles(kate)], ["You said: lose", "user assistant"]);
});

await shows("a run that is stopped", async () => {
  const kate = agent("stop");
  say(kate, "count");
  let stopped;
  const { outcome, error } = await run(kate, {}, {
    onTextMessageContentEvent: () => void (stopped ??= post("/ag-ui/stop/stop")),
  });
  assert.equal((await stopped).status, 204);
  assert.equal(isOld ? error.code : outcome, "cancelled");
});

await shows("an error of the model", async () => {
  const kate = agent("fail");
  say(kate, "fail");
  const { error } = await run(kate);
  assert.ok(error.message && !error.message.includes("secret"), error.message);
});

await shows("a failed run that goes on", async () => {
  const kate = agent("fail once");
  say(kate, "fail once");
  assert.ok((await run(kate)).error);
  assert.equal((await run(kate)).result, "You said: fail once");
  assert.deepEqual([text(kate), roles(kate)], ["You said: fail once", "user assistant"]);
});

await shows("a page that is opened again, while a call waits", async () => {
  const kate = agent("again");
  say(kate, "pay");
  await run(kate);
  const { messages, rest } = await get("/ag-ui/again/messages");
  assert.equal(rest, "waiting");
  const page = agent("again", messages);
  const { interrupts } = await run(page);
  const resume = [{ interruptId: interrupts[0].id, status: "resolved", payload: { approved: true } }];
  await run(page, { resume });
  assert.equal(text(page), "Result: 5 to Ann");
  const { messages: whole } = await get("/ag-ui/again/messages");
  assert.deepEqual(page.messages, whole);
});

await shows("the last message answered again, and replaced", async () => {
  const kate = agent("replace");
  say(kate, "first");
  await run(kate);
  say(kate, "second");
  await run(kate);
  kate.messages.pop();
  const again = { forwardedProps: { toolwright: { again: true } } };
  assert.equal((await run(kate, again)).result, "You said: second");
  kate.messages.pop();
  kate.messages.at(-1).content = "third";
  const replaces = { forwardedProps: { toolwright: { replaces: true } } };
  assert.equal((await run(kate, replaces)).result, "You said: third");
  const { messages } = await get("/ag-ui/replace/messages");
  assert.deepEqual(messages.map((message) => message.content), kate.messages.map((message) => message.content));
});

await shows("an image, and a context", async () => {
  const kate = agent("image");
  const source = { type: "data", value: "iVBORw0KGgo=", mimeType: "image/png" };
  say(kate, [{ type: "text", text: "look at this" }, { type: "image", source }]);
  assert.equal((await run(kate)).result, "1 image");
  const context = agent("context");
  say(context, "Hi");
  const { result } = await run(context, { context: [{ description: "The page", value: "orders" }] });
  assert.match(result, /The page:\norders/);
});

await shows("what the server refuses", async () => {
  const kate = agent("refuses");
  say(kate, "Hi");
  const tools = [{ name: "alert", description: "Shows a text.", parameters: {} }];
  await assert.rejects(run(kate, { tools }), { status: 400, message: /`tools` is not empty/ });
  kate.state = { count: 1 };
  await assert.rejects(run(kate), { status: 400, message: /`state` is not empty/ });
  const nobody = agent("refuses");
  nobody.headers = {};
  say(nobody, "Hi");
  await assert.rejects(run(nobody), { status: 401 });
  const flood = agent("refuses", [], "flood");
  say(flood, "Hi");
  await assert.rejects(run(flood), { status: 429 });
  assert.deepEqual((await get("/ag-ui/approve/messages", "tom")).messages, []);
});

// The end of a call that was taken back. It comes after that, so that nothing acts on half a call.
const allowed = /^TOOL_CALL_END: No message found/;
assert.deepEqual(warnings.filter((warning) => !allowed.test(warning)), []);
console.log(`${client} over HTTP: ${answers} answers`);
