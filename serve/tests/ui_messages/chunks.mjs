// Gives generated streams to the transport and the reader of the package `ai`, versions 6 and 7, and
// compares the messages that they make with ours.
//
//   node chunks.mjs CASES.jsonl

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const sdks = { 6: await import("ai-6"), 7: await import("ai-7") };

// The reader fails a stream that has a chunk out of order, and the transport one that has another form.
async function read(sdk, events, message) {
  const body = events.map((event) => `data: ${event}\n\n`).join("");
  const transport = new sdk.DefaultChatTransport({ fetch: async () => new Response(body) });
  const stream = await transport.sendMessages({ chatId: "1", messages: [], trigger: "submit-message" });
  const errors = [];
  let last = message;
  const messages = sdk.readUIMessageStream({ message, stream, onError: (error) => errors.push(error.message) });
  for await (const next of messages) {
    last = next;
  }
  return { message: last, errors };
}

// What JSON has of a message, without what the client keeps for itself.
function plain(message) {
  const { parts, ...rest } = JSON.parse(JSON.stringify(message ?? { parts: [] }));
  for (const part of parts) {
    if (part.type === "reasoning") delete part.id;
    // A call that waited for others, as long as they were not decided.
    if (part.approval?.isAutomatic) {
      delete part.approval;
      if (part.state === "approval-responded") part.state = "input-available";
    }
    if (part.approval) {
      // The run may end before it has the answer.
      if (part.state === "approval-responded") part.state = "approval-requested";
      // Version 6 gets no answer, so it has one only if it gave it.
      delete part.approval.approved;
      delete part.approval.reason;
      // Version 6 does not keep it.
      delete part.approval.requestReason;
    }
    // Version 6 has the arguments of a call that failed before it was made in another field.
    if (part.rawInput !== undefined && part.input === undefined) part.input = part.rawInput;
    delete part.rawInput;
  }
  return { ...rest, parts };
}

// Answers the questions as `addToolApprovalResponse` does.
function answered(message, questions) {
  const copy = structuredClone(message);
  for (const part of copy.parts) {
    if (part.state === "approval-requested" && questions.includes(part.approval.id)) {
      part.state = "approval-responded";
      part.approval = { ...part.approval, approved: true };
    }
  }
  return copy;
}

const cases = readFileSync(process.argv[2], "utf8").trim().split("\n").map((line) => JSON.parse(line));
let streams = 0;
for (const [nth, { version, events, message, messages, continued }] of cases.entries()) {
  const sdk = sdks[version];
  try {
    const isStopped = events.some((event) => event.startsWith('{"type":"error"'));
    const expected = isStopped ? ["Bye."] : [];
    const whole = await read(sdk, events);
    assert.deepEqual(whole.errors, expected);
    assert.deepEqual(plain(whole.message), plain(message));
    streams += 1;
    for (const { questions, first, rest } of continued) {
      const before = await read(sdk, first);
      assert.deepEqual(before.errors, []);
      const after = await read(sdk, rest, answered(before.message, questions));
      assert.deepEqual(after.errors, expected);
      assert.deepEqual(plain(after.message), plain(message));
      streams += 1;
    }
    if (version === 7) {
      const valid = await sdk.safeValidateUIMessages({ messages });
      assert.ok(valid.success, valid.error?.message);
    }
  } catch (error) {
    console.error(`case ${nth}, version ${version}:\n${events.join("\n")}`);
    throw error;
  }
}
console.log(`${cases.length} messages in ${streams} streams, read by ai 6 and ai 7: passed`);
