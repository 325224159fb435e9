// The chat of `@ai-sdk/react` against a real service.
//
//   node service.mjs VERSION URL HOME
//
// VERSION is that of the package `ai`: 6 or 7. URL is that of `examples/scripted_service.rs`, and HOME says where
// it keeps its runs.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const [version, url, home] = process.argv.slice(2);
const { Chat } = await import(version === "7" ? "@ai-sdk/react-4" : "@ai-sdk/react-3");
const sdk = await import(`ai-${version}`);
const query = version === "7" ? "?version=7" : "";
const user = `user-${version}`;
const headers = { "x-user": user };
let chats = 0;

// The helper of version 6 waits for calls that the service makes only after the answers.
function allAnswered({ messages }) {
  const states = messages.at(-1).parts.map((part) => part.state);
  return states.includes("approval-responded") && !states.includes("approval-requested");
}

function open(id = `chat-${process.pid}-${++chats}`, messages = [], fetch = globalThis.fetch, parts = {}) {
  const transport = new sdk.DefaultChatTransport({ api: `${url}/api/chat${query}`, headers, fetch });
  return new Chat({
    id,
    messages,
    transport,
    sendAutomaticallyWhen:
      version === "7" ? sdk.lastAssistantMessageIsCompleteWithApprovalResponses : allAnswered,
    ...parts,
  });
}

const at = (path, options = {}) => fetch(`${url}/api/${path}`, { headers, ...options });
const stored = async (chat) => (await at(`chat/${chat.id}/messages`)).json();
const payments = async () => (await fetch(`${url}/payments`)).text();

const texts = (message) =>
  message.parts.filter((part) => part.type === "text").map((part) => part.text).join("|");
const tools = (message) => message.parts.filter((part) => part.type === "dynamic-tool");

async function until(what, condition) {
  for (let n = 0; n < 500; n += 1) {
    if (condition()) return;
    await sleep(10);
  }
  assert.fail(`${what} did not happen within 5 s`);
}

const answered = (chat, words) =>
  until(`the words "${words}"`, () =>
    chat.lastMessage?.role === "assistant" && texts(chat.lastMessage).includes(words));
const isReady = (chat) => until("the end of the answer", () => chat.status === "ready");

// A page that is opened again has what the chat has.
async function same(chat) {
  const plain = (messages) => {
    const copy = JSON.parse(JSON.stringify(messages));
    for (const part of copy.flatMap((message) => message.parts)) {
      if (part.type === "reasoning") delete part.id;
      delete part.approval;
      if (part.type === "dynamic-tool" && part.input === undefined) part.input = part.rawInput;
      delete part.rawInput;
    }
    return copy;
  };
  const messages = await stored(chat);
  assert.deepEqual(plain(messages), plain(chat.messages));
  const valid = await sdk.safeValidateUIMessages({ messages });
  assert.ok(valid.success, valid.error?.message);
}

const checks = {
  async text() {
    const chat = open();
    await chat.sendMessage({ text: "hello there" });
    assert.equal(chat.status, "ready");
    assert.equal(texts(chat.lastMessage), "You said: hello there");
    const { usage, ending, model } = chat.lastMessage.metadata;
    assert.deepEqual(usage, { inputTokens: 100, cachedInputTokens: 0, outputTokens: 10 });
    assert.deepEqual([ending, model], ["answered", "obedient"]);
    await chat.sendMessage({ text: "and more" });
    assert.equal(chat.messages.length, 4);
    await same(chat);
  },

  async "reasoning and files"() {
    const chat = open();
    await chat.sendMessage({ text: "think" });
    const [thought] = chat.lastMessage.parts.filter((part) => part.type === "reasoning");
    assert.deepEqual([thought.text, thought.state], ["They want me to think.", "done"]);
    const file = { type: "file", mediaType: "image/png", url: "data:image/png;base64,iVBORw0KGgo=" };
    await chat.sendMessage({ text: "look", files: [file] });
    assert.equal(texts(chat.lastMessage), "You said: image look");
  },

  async "calls while they are written"() {
    const states = [];
    const chat = open();
    chat["~registerMessagesCallback"](() => {
      for (const tool of tools(chat.lastMessage)) {
        const state = `${tool.state} ${JSON.stringify(tool.input) ?? ""}`;
        if (states.at(-1) !== state) states.push(state);
      }
    });
    await chat.sendMessage({ text: "add" });
    // What is written at once is read at once.
    const expected = [
      "input-streaming ",
      'input-streaming {"a":1}',
      'input-streaming {"a":1,"b":2}',
      'input-available {"a":1,"b":2}',
      'output-available {"a":1,"b":2}',
    ];
    assert.deepEqual(states, expected.filter((state) => states.includes(state)));
    // In a database, the first pieces wait for the start of the run.
    assert.ok(states.length > (home === "postgres" ? 1 : 2), states.join(", "));
    const [tool] = tools(chat.lastMessage);
    assert.deepEqual([tool.toolName, tool.output], ["add", "3"]);
    assert.ok(tool.resultProviderMetadata.toolwright.milliseconds >= 0);
    assert.equal(texts(chat.lastMessage), "Results: 3.");
    await same(chat);
    await chat.sendMessage({ text: "wrong" });
    const [wrong] = tools(chat.lastMessage);
    assert.equal(wrong.state, "output-error");
    assert.match(wrong.errorText, /\$\.a/);
    await same(chat);
  },

  async approval() {
    const chat = open();
    await chat.sendMessage({ text: "pay" });
    let [tool] = tools(chat.lastMessage);
    assert.equal(tool.state, "approval-requested");
    const { descriptor } = tool.approval;
    assert.deepEqual([descriptor.effect, descriptor.unknown], ["irreversible", false]);
    assert.equal(descriptor.schema.properties.amount.type, "integer");
    const before = await payments();
    // Another user's answer is that of nobody.
    const others = { api: `${url}/api/chat`, headers: { "x-user": "eve" } };
    const transport = new sdk.DefaultChatTransport(others);
    const theirs = open(chat.id, structuredClone(chat.messages), undefined, { transport });
    await theirs.addToolApprovalResponse({ id: tool.approval.id, approved: true });
    await until("the refusal", () => theirs.status === "error");
    assert.match(theirs.error.message, /^there is no run/);
    assert.equal(await payments(), before);

    await chat.addToolApprovalResponse({ id: tool.approval.id, approved: true });
    await answered(chat, "Results");
    await isReady(chat);
    [tool] = tools(chat.lastMessage);
    assert.deepEqual([tool.state, tool.output], ["output-available", "paid 5 to Ann"]);
    assert.equal(tool.approval.approved, true);
    assert.equal(texts(chat.lastMessage), "I pay.|Results: paid 5 to Ann.");
    assert.equal(chat.messages.length, 2);
    assert.equal((await payments()).length, before.length + "5 to Ann".length + (before ? 1 : 0));
    await same(chat);
  },

  async "a refusal with its reason"() {
    const chat = open();
    const before = await payments();
    await chat.sendMessage({ text: "pay" });
    const { approval } = tools(chat.lastMessage)[0];
    await chat.addToolApprovalResponse({ id: approval.id, approved: false, reason: "Not today." });
    await answered(chat, "Results");
    await isReady(chat);
    const [tool] = tools(chat.lastMessage);
    assert.deepEqual([tool.state, tool.approval.reason], ["output-denied", "Not today."]);
    assert.match(texts(chat.lastMessage), /Not today\./);
    assert.equal(await payments(), before);
    await same(chat);
  },

  async "two questions beside another call"() {
    const chat = open();
    await chat.sendMessage({ text: "two" });
    const [ann, bob, add] = tools(chat.lastMessage);
    assert.deepEqual([ann.state, bob.state, add.state], [
      "approval-requested",
      "approval-requested",
      version === "7" ? "approval-responded" : "input-available",
    ]);
    await chat.addToolApprovalResponse({ id: bob.approval.id, approved: false });
    await sleep(50);
    assert.equal(tools(chat.lastMessage)[1].state, "approval-responded");
    await chat.addToolApprovalResponse({ id: ann.approval.id, approved: true });
    await answered(chat, "Results");
    await isReady(chat);
    assert.deepEqual(tools(chat.lastMessage).map((tool) => tool.state), [
      "output-available", "output-denied", "output-available",
    ]);
    await same(chat);
  },

  async "a question of an agent below"() {
    const nested = [];
    const chat = open(undefined, [], undefined, { onData: (part) => nested.push(part) });
    await chat.sendMessage({ text: "below" });
    const [clerk, pay] = tools(chat.lastMessage);
    assert.deepEqual([clerk.state, pay.state], ["input-available", "approval-requested"]);
    assert.equal(pay.title, "clerk › pay");
    await chat.addToolApprovalResponse({ id: pay.approval.id, approved: true });
    await answered(chat, "Results");
    await isReady(chat);
    assert.deepEqual(tools(chat.lastMessage).map((tool) => tool.state), [
      "output-available", "output-available",
    ]);
    assert.ok(nested.some((part) => part.data.update === "text" && part.data.path[0].tool === "clerk"));
    await same(chat);
  },

  async "an answer from another page"() {
    const chat = open();
    await chat.sendMessage({ text: "pay" });
    const other = open(chat.id, await stored(chat));
    const { id } = tools(other.lastMessage)[0].approval;
    await other.addToolApprovalResponse({ id, approved: false, reason: "I was first." });
    await answered(other, "Results");
    // The first page shows the question still. Its answer comes too late, and it gets what was decided.
    await chat.addToolApprovalResponse({ id, approved: true });
    await answered(chat, "Results");
    await isReady(chat);
    assert.equal(tools(chat.lastMessage)[0].state, "output-denied");
    await same(chat);
  },

  async "changed arguments, by the service's own route"() {
    const chat = open();
    await chat.sendMessage({ text: "pay" });
    const { id, descriptor } = tools(chat.lastMessage)[0].approval;
    const response = await at(`runs/${descriptor.run}/questions/${id}`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ edit: { arguments: { to: "Eve", amount: 1 } } }),
    });
    assert.equal(response.status, 200);
    await chat.resumeStream();
    const [tool] = tools(chat.lastMessage);
    assert.deepEqual([tool.input, tool.state], [{ to: "Eve", amount: 1 }, "output-available"]);
    assert.equal(texts(chat.lastMessage).startsWith("I pay.|Results: "), true);
    assert.equal(chat.messages.length, 2);
    await same(chat);
  },

  async stop() {
    const chat = open();
    const sending = chat.sendMessage({ text: "slow one two three four five six seven eight" });
    await answered(chat, "slow");
    await chat.stop();
    await sending;
    // The client has only closed its connection.
    await chat.sendMessage({ text: "next" });
    assert.equal(chat.status, "error");
    assert.match(chat.error.message, /has not ended/);
    const stopped = await at(`chat/${chat.id}/stop`, { method: "POST" });
    assert.equal(stopped.status, 204);
    await chat.regenerate();
    assert.equal(chat.status, "ready", chat.error?.message);
    assert.equal(texts(chat.lastMessage), "You said: next");
    const [, answer] = await stored(chat);
    assert.equal(answer.metadata.stopped.reason, "The run was stopped.");
  },

  async "a stop that the page sees"() {
    const chat = open();
    const sending = chat.sendMessage({ text: "slow one two three four five six seven eight" });
    await answered(chat, "slow");
    await at(`chat/${chat.id}/stop`, { method: "POST" });
    await sending;
    assert.equal(chat.status, "ready", chat.error?.stack);
    assert.equal(chat.lastMessage.metadata.stopped.canGoOn, false);
  },

  async "a run that waits is stopped"() {
    const chat = open();
    await chat.sendMessage({ text: "pay" });
    await at(`chat/${chat.id}/stop`, { method: "POST" });
    await chat.resumeStream();
    const [tool] = tools(chat.lastMessage);
    assert.equal(tool.state, "output-denied");
    await same(chat);
    await chat.sendMessage({ text: "next" });
    assert.equal(texts(chat.lastMessage), "You said: next");
  },

  async "a question is answered by a reader who comes back"() {
    const first = open();
    await first.sendMessage({ text: "pay" });
    const [message] = await stored(first);
    const second = open(first.id, [message]);
    await second.resumeStream();
    const { id } = tools(second.lastMessage)[0].approval;
    await second.addToolApprovalResponse({ id, approved: true });
    await answered(second, "Results");
    await isReady(second);
    assert.equal(texts(second.lastMessage), "I pay.|Results: paid 5 to Ann.");
    await same(second);
  },

  async "a reader who comes back in the middle, and one at the end"() {
    const text = "slow one two three four five six seven eight";
    const first = open();
    const sending = first.sendMessage({ text });
    await answered(first, "slow one");
    await first.stop();
    await sending;
    const part = texts(first.lastMessage);
    assert.ok(part.length < text.length);
    const second = open(first.id, await stored(first));
    assert.equal(second.messages.length, 2);
    await second.resumeStream();
    assert.equal(texts(second.lastMessage), `You said: ${text}`);
    await same(second);
    // The run has ended meanwhile, and the first page has only a part of it.
    await first.resumeStream();
    assert.equal(texts(first.lastMessage), `You said: ${text}`);
    assert.equal(first.messages.length, 2);
    await same(first);
    const none = open("never used");
    await none.resumeStream();
    assert.deepEqual([none.status, none.messages], ["ready", []]);
  },

  async "a lost connection"() {
    // The network cuts the stream after some words.
    let isCut = false;
    const lossy = async (...request) => {
      const response = await fetch(...request);
      if (isCut || !response.ok) return response;
      isCut = true;
      let pieces = 0;
      const body = response.body.pipeThrough(new TransformStream({
        transform(piece, controller) {
          pieces += 1;
          if (pieces > 4) controller.error(new TypeError("network error"));
          else controller.enqueue(piece);
        },
      }));
      return new Response(body, { status: response.status, headers: response.headers });
    };
    const ends = [];
    const chat = open(undefined, [], lossy, { onFinish: (end) => ends.push(end) });
    await chat.sendMessage({ text: "slow one two three four five" });
    assert.equal(chat.status, "error");
    assert.equal(ends[0].isDisconnect, true);
    await chat.resumeStream();
    assert.equal(chat.status, "ready");
    assert.equal(texts(chat.lastMessage), "You said: slow one two three four five");
    assert.equal(chat.messages.length, 2);
    await same(chat);
  },

  async "a reply that is lost and written anew"() {
    const chat = open();
    await chat.sendMessage({ text: "lose this" });
    if (version === "7") {
      assert.equal(texts(chat.lastMessage), "You said: lose this");
      await same(chat);
      return;
    }
    // Version 6 cannot take text back. What is before the mark in its step is void.
    const { parts } = chat.lastMessage;
    const mark = parts.findIndex((part) => part.type === "data-discarded");
    assert.equal(texts({ parts: parts.slice(0, mark) }), "You said: ");
    assert.equal(texts({ parts: parts.slice(mark) }), "You said: lose this");
    // It is not there when the page is opened again.
    assert.equal(texts((await stored(chat))[1]), "You said: lose this");
  },

  async "an answer is regenerated"() {
    const chat = open();
    await chat.sendMessage({ text: "one" });
    await chat.sendMessage({ text: "another" });
    await chat.sendMessage({ text: "three" });
    const [, , , , , answer] = chat.messages;
    await chat.regenerate({ messageId: answer.id });
    assert.equal(chat.messages.length, 6);
    assert.notEqual(chat.lastMessage.id, answer.id);
    assert.equal(texts(chat.lastMessage), "You said: three");
    await chat.regenerate({ messageId: chat.messages[1].id });
    assert.equal(chat.messages.length, 2);
    assert.equal(texts(chat.lastMessage), "You said: one");
    await same(chat);
  },

  async "a message is edited"() {
    const chat = open();
    await chat.sendMessage({ text: "first" });
    await chat.sendMessage({ text: "second" });
    await chat.sendMessage({ text: "changed", messageId: chat.messages[0].id });
    assert.equal(chat.messages.length, 2);
    assert.equal(texts(chat.lastMessage), "You said: changed");
    await same(chat);
  },

  async "errors are for people"() {
    const chat = open();
    await chat.sendMessage({ text: "fail" });
    assert.equal(chat.status, "error");
    assert.doesNotMatch(chat.error.message, /sk-secret/);
    assert.match(chat.error.message, /could not go on/);
    assert.doesNotMatch(JSON.stringify(await stored(chat)), /sk-secret/);
    // The user says something else.
    await chat.sendMessage({ text: "better", messageId: chat.messages[0].id });
    assert.equal(texts(chat.lastMessage), "You said: better");

    const nobody = open(undefined, [], (input, init) => {
      const { "x-user": _, ...rest } = init.headers;
      return fetch(input, { ...init, headers: rest });
    });
    await nobody.sendMessage({ text: "hello" });
    assert.equal(nobody.error.message, "sign in first");
  },

  async "a run that stopped at an error goes on"() {
    const chat = open();
    await chat.sendMessage({ text: "stumble once" });
    assert.equal(chat.status, "error");
    const { id, metadata } = chat.lastMessage;
    assert.equal(metadata.stopped.canGoOn, true);
    const response = await at(`runs/${id}/go-on`, { method: "POST" });
    assert.equal(response.status, 200);
    await chat.resumeStream();
    assert.equal(chat.status, "ready", chat.error?.stack);
    assert.equal(texts(chat.lastMessage), "You said: stumble once");
    assert.equal(chat.messages.length, 2);
    await same(chat);
  },

  async "a message that did not arrive is tried again"() {
    let isAway = true;
    const chat = open(undefined, [], async (...request) => {
      if (isAway) throw new TypeError("fetch failed");
      return fetch(...request);
    });
    await chat.sendMessage({ text: "hello" });
    assert.equal(chat.status, "error");
    isAway = false;
    await chat.regenerate();
    assert.equal(chat.status, "ready", chat.error?.message);
    assert.equal(texts(chat.lastMessage), "You said: hello");
    await same(chat);
  },

  async "a conversation that the service does not have"() {
    const answer = { id: "a1", role: "assistant", parts: [{ type: "text", text: "Hi!" }] };
    const user = { id: "u1", role: "user", parts: [{ type: "text", text: "Hi!" }] };
    const chat = open("forgotten", [user, answer]);
    await chat.sendMessage({ text: "and?" });
    assert.match(chat.error.message, /does not know the 1 earlier/);
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
  } catch (error) {
    failed += 1;
    console.error(`ai ${version}, ${name}: FAILED\n`, error);
  }
}
const count = Object.keys(checks).length;
const react = version === "7" ? 4 : 3;
console.log(
  `ai ${version}, @ai-sdk/react ${react}, runs in ${home}: ${count - failed} of ${count} checks passed`,
);
process.exit(failed === 0 ? 0 : 1);
