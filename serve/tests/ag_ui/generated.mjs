// Gives generated runs to the real client, and compares its messages with those of the test's client.
//
//   node generated.mjs CASES ANSWERS CLIENT   writes each answer of the server to a file in the folder
//                                             ANSWERS; CLIENT is the package

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { from } from "rxjs";

const [cases, folder, client] = process.argv.slice(2);
const { AbstractAgent } = await import(client);
mkdirSync(folder, { recursive: true });

// The client warns about what it does not know.
const warnings = [];
console.warn = (...texts) => warnings.push(texts.join(" "));

class Given extends AbstractAgent {
  run() {
    return from(this.events);
  }
}

/** The messages in the form of the test's client, which does not keep metadata. */
function plain(messages) {
  return JSON.parse(JSON.stringify(messages), (key, value) => (key === "metadata" ? undefined : value));
}

function sorted(messages) {
  const order = (value) =>
    Array.isArray(value) || typeof value !== "object" || value === null
      ? value
      : Object.fromEntries(Object.entries(value).sort());
  return JSON.parse(JSON.stringify(plain(messages), (_, value) => order(value)));
}

let [answers, interrupts, failed] = [0, 0, 0];
const lines = readFileSync(cases, "utf8").trim().split("\n");
for (const [nth, line] of lines.entries()) {
  const { base, answers: given, messages, end } = JSON.parse(line);
  const agent = new Given({ threadId: "t", initialMessages: base });
  let last;
  for (const [at, events] of given.entries()) {
    if (events.length === 0) continue;
    agent.events = events.map((event) => JSON.parse(event));
    // A page that is opened again does not know of questions.
    agent.pendingInterrupts = [];
    await agent.runAgent({ runId: "r" }, { onEvent: ({ event }) => void (last = event) });
    // Only whole answers are valid ones.
    const isWhole = ["RUN_FINISHED", "RUN_ERROR"].includes(agent.events.at(-1).type);
    if (isWhole) writeFileSync(join(folder, `${nth}-${at}.jsonl`), events.join("\n") + "\n");
    answers += 1;
  }
  assert.deepEqual(sorted(agent.messages), sorted(messages), `case ${nth}`);
  assert.equal(last.type, end.type);
  assert.deepEqual(agent.pendingInterrupts, end.outcome?.interrupts ?? [], `case ${nth}`);
  interrupts += agent.pendingInterrupts.length;
  failed += end.type === "RUN_ERROR" ? 1 : 0;
}
// The end of a call that was taken back. It comes after that, so that nothing acts on half a call.
const allowed = /^TOOL_CALL_END: No message found/;
assert.deepEqual(warnings.filter((warning) => !allowed.test(warning)), []);
console.log(`${client}: ${lines.length} conversations, ${answers} answers, ${interrupts} questions, ${failed} failed runs`);
