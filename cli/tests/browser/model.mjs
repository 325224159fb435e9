// A model with OpenAI's chat API that writes what a check needs. The first word of the last message of
// the user chooses the reply.
import { createServer } from "node:http";

const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export const RICH = `# Deploy report

The deploy of **checkout** went *well*, with one \`warning\`. See [the log](https://logs.example/run/7) and https://status.example/today.

## Steps

1. Build the image
2. Run the tests
   - 412 passed
   - 3 skipped
3. Roll out

- [x] Canary
- [ ] Clean up

| service | before | after |
|---|---:|:---:|
| checkout | 1.4.2 | 1.5.0 |
| cart | 0.9.1 | 0.9.1 |

> The canary took 10 % of the traffic for one hour.

\`\`\`rust
fn main() {
    println!("{}", 1 + 1);
}
\`\`\`

Nothing else has changed.
`;

const RTL = "\u202E", ZERO = "\u200B";

export const HOSTILE = `<script>alert(1)</script><img src=x onerror=alert(2)> <iframe src="https://evil.example"></iframe>

[click](javascript:alert(3)) and [data](data:text/html,<script>alert(4)</script>) and [vb](vbscript:x) and ![image](https://evil.example/track.png)

[https://bank.example](https://evil.example/login) user${RTL}gpj.exe and a${ZERO}b and <a href="https://evil.example">x</a>

${"> ".repeat(3000)}deep

${"- ".repeat(2000)}deep

${"*".repeat(5000)}x ${"[".repeat(5000)} ${"`".repeat(3001)} ${"~~a ".repeat(2000)} ${"_a ".repeat(2000)}

| a | b |
|---|---|
| <b>bold</b> | \`<i>\` |

&lt;b&gt; &amp; </div></article></main>

\`\`\`html
</code></pre><script>alert(5)</script>
`;

const call = (name, args, id) => ({ calls: [{ id, name, args: typeof args === "string" ? args : JSON.stringify(args) }] });

let failures = new Map();

// Returns what the model says: pieces of text and reasoning, calls, or an error.
const reply = (messages) => {
  const users = messages.filter(({ role }) => role === "user");
  const said = users.at(-1)?.content;
  const text = typeof said === "string" ? said : said.map((part) => part.text ?? `<${part.type}>`).join(" ");
  const after = messages.slice(messages.lastIndexOf(users.at(-1)) + 1);
  const results = after.filter(({ role }) => role === "tool").map(({ content }) => typeof content === "string" ? content : content.map((part) => part.text).join(""));
  // A message without an answer is sent together with the one after it.
  const texts = typeof said === "string" ? said.split("\n\n") : said.filter((part) => part.text !== undefined).map((part) => part.text);
  const [word] = texts.at(-1).split(/[\s.,:]/);
  const last = results.at(-1);
  switch (word.toLowerCase()) {
    case "rich": return { text: RICH, pause: 4 };
    case "slow": return { text: "One word follows the other, and each takes its time. ".repeat(40), pause: 40 };
    case "think": return { reasoning: "The user wants a sum. Two and two are four. I should say so.", text: "Four.", pause: 15 };
    case "store": return results.length === 0 ? call("memory_store", { key: "color", value: "blue" }, "c1") : { text: `The tool says: ${last}` };
    case "delete": return results.length === 0
      ? { ...call("memory_delete", `{"key": "color", "note": 12345678901234567890}`, "c1"), text: "I delete the key now." }
      : { text: `The tool says: ${last}` };
    case "delete-two": return results.length === 0
      ? { calls: ["a", "b"].map((key) => ({ id: `c-${key}`, name: "memory_delete", args: JSON.stringify({ key }) })) }
      : { text: `The tools say: ${results.join(" / ")}` };
    case "pay": return results.length === 0 ? call("pay", { to: "Ann" }, "p1") : { text: `The tool says: ${last}` };
    case "read": return results.length === 0 ? call("file_read", { path: "missing.txt" }, "c1") : { text: `It failed: ${last.slice(0, 60)}` };
    case "big": return results.length === 0 ? call("memory_store", { key: "big", value: "line of text\n".repeat(400) }, "c1")
      : results.length === 1 ? call("memory_retrieve", { key: "big" }, "c2") : { text: "That was big." };
    case "fail": {
      const count = failures.get(text) ?? 0;
      failures.set(text, count + 1);
      return count === 0 ? { error: "the account of this key has no credit: <b>pay</b> at https://pay.example" } : { text: "Now it works." };
    }
    case "break": return { text: "This answer is cut in the middle of a", breaks: true };
    case "hostile": return results.length === 0
      ? call("memory_store", { key: `<img src=x onerror=alert(6)>${RTL}`, value: "</section><script>alert(7)</script>" }, "h1")
      : { text: HOSTILE, pause: 0 };
    case "huge": return { text: `${"x".repeat(1_000_000)}`, pause: 0, piece: 60_000 };
    case "image": return { text: `I see: ${text}` };
    default: return { text: `You said: ${texts.at(-1)}`, pause: 2 };
  }
};

export const startModel = async () => {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    if (!request.url.endsWith("/chat/completions")) { response.writeHead(404).end("{}"); return; }
    const asked = JSON.parse(body);
    const said = reply(asked.messages);
    if (said.error) {
      response.writeHead(402, { "content-type": "application/json" }).end(JSON.stringify({ error: { message: said.error, type: "insufficient_quota" } }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (delta, finish = null, more = {}) => response.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", model: "small-1", choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`);
    const pieces = (text, size) => size ? text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [] : text.match(/\S*\s*/g).filter((piece) => piece !== "");
    for (const piece of pieces(said.reasoning ?? "")) { send({ reasoning_content: piece }); await wait(said.pause ?? 1); }
    for (const piece of pieces(said.text ?? "", said.piece)) {
      if (response.destroyed) return;
      send({ content: piece });
      if (said.pause) await wait(said.pause);
    }
    if (said.breaks) { response.destroy(); return; }
    for (const [index, { id, name, args }] of (said.calls ?? []).entries()) {
      send({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] });
      for (const piece of pieces(args, 400)) send({ tool_calls: [{ index, function: { arguments: piece } }] });
    }
    send({}, said.calls ? "tool_calls" : "stop");
    response.write(`data: ${JSON.stringify({ id: "x", model: "small-1", choices: [], usage: { prompt_tokens: 1200, completion_tokens: 56, prompt_tokens_details: { cached_tokens: 800 } } })}\n\n`);
    response.end("data: [DONE]\n\n");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => server.close() };
};
