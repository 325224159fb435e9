// Plays the page of `toolwright serve` in Chromium. See serve.sh.
import { spawn } from "node:child_process";
import { readFileSync, mkdirSync, rmSync } from "node:fs";
import { chromium } from "playwright-core";
import { HOSTILE, startModel } from "./model.mjs";

const folder = process.argv[2];
const only = process.argv[3];
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
let failures = 0;
const check = (what, ok, found = "") => {
  if (!ok) failures += 1;
  console.log(`${ok ? "ok  " : "FAIL"} ${what}${ok && found === "" ? "" : `: ${found}`}`);
};
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// The commands that run.
const running = new Set();

// The command, with a home of its own.
const start = async (home, ...args) => {
  const where = `${folder}/${home}`;
  mkdirSync(`${where}/files`, { recursive: true });
  const env = { PATH: process.env.PATH, HOME: where, XDG_DATA_HOME: where, XDG_CONFIG_HOME: where, USER: "kate" };
  const child = spawn(process.env.COMMAND, ["serve", "--http", "0", ...args], { env, cwd: where });
  let said = "";
  running.add(child);
  child.stderr.on("data", (data) => { said += data; });
  const exited = new Promise((done) => child.on("exit", done));
  for (let tries = 0; !/^at (http:\S+)/m.test(said); tries += 1) {
    if (tries > 300 || child.exitCode !== null) throw new Error(`the command did not start: ${said}`);
    await wait(100);
  }
  return { url: /^at (http:\S+)/m.exec(said)[1], said: () => said, kill: async (signal = "SIGINT") => { child.kill(signal); return await exited; } };
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
console.log(`Chromium ${browser.version()}`);

const context = (options = {}) => browser.newContext({ viewport: { width: 1000, height: 800 }, deviceScaleFactor: 1, permissions: [], ...options });

// A tab, with everything that it says and asks for from other hosts.
const tab = async (url, inContext) => {
  const made = inContext ?? await context();
  const page = await made.newPage();
  page.said = [];
  page.on("console", (message) => page.said.push(message.text()));
  page.on("pageerror", (error) => page.said.push(String(error)));
  page.on("dialog", (dialog) => { page.said.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) page.said.push(`asked ${request.url()}`); });
  await page.goto(url);
  await page.waitForFunction(() => document.getElementById("about-text").childElementCount > 0);
  return page;
};

const say = async (page, text) => {
  await page.fill("#text", text);
  await page.press("#text", "Enter");
};
const over = (page) => page.waitForFunction(() => document.getElementById("send").checkVisibility(), null, { timeout: 60_000 });
const turns = (page) => page.locator(".turn").count();
const fresh = async (page) => {
  if (await page.locator("#new").isVisible()) await page.click("#new");
  else await page.evaluate(() => document.getElementById("new").click());
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 0);
};
// A browser says itself that a request was refused.
const silent = (page, what, status) => check(`${what}: the console is silent, and no other host is asked`, page.said.filter((line) => !status || !line.includes(`status of ${status}`)).length === 0, page.said.join(" | "));
const picture = async (page, name) => {
  await wait(300);
  await page.screenshot({ path: `pictures/serve-${name}.png` });
};
const fits = async (page, what) => {
  const found = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth, [...document.querySelectorAll("#main *, #say *, header *")].filter((one) => one.checkVisibility() && !one.closest(".sr, .wide, pre, #side") && one.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((one) => `${one.tagName}.${one.className}`)]);
  check(`${what}: nothing is wider than the screen`, found[0] <= 0 && found[1].length === 0, found.join(" "));
};
const audit = async (page, what) => {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }));
  const found = violations.map(({ id, nodes }) => `${id} ${nodes.slice(0, 3).map((node) => `${node.target} ${node.any.map((any) => any.message)}`).join("; ")}`);
  check(`${what}: axe finds nothing`, found.length === 0, found.join("\n     "));
};

const model = await startModel();
const asking = ["--base-url", model.url, "--model", "small", "--ask", "--tools", "memory,files:files"];

const scenes = {
  async recorded() {
    const server = await start("recorded", "--offline");
    const page = await tab(server.url);
    check("without a key, the recorded task is offered", await page.locator(".suggestion").isVisible());
    await audit(page, "empty");
    await picture(page, "empty");
    await page.click(".suggestion");
    await over(page);
    const text = await page.locator(".turn").innerText();
    check("the recorded task is answered in the page", text.includes("Its value is blue."), text);
    check("its calls are cards with results", await page.locator(".call[data-state=done]").count() === 2);
    check("no selection is shown as a text", !text.includes("selection"));
    await say(page, "Something else");
    await page.locator(".stopped").waitFor();
    check("another task says how to get a model", (await page.locator(".stopped").innerText()).includes("OPENAI_API_KEY"));
    await fresh(page);
    await page.click(".suggestion");
    await over(page);
    check("the recorded task is answered again", (await page.locator(".turn").innerText()).includes("Its value is blue."));
    const [run] = await Promise.all([page.context().waitForEvent("page"), page.click(".foot a")]);
    await run.waitForLoadState();
    check("a run has its page", (await run.locator("h1").first().innerText()) !== "" && (await run.locator("details.step").count()) > 0);
    silent(page, "recorded");
    await picture(page, "recorded");
    check("Ctrl-C ends the command", await server.kill() === 0, server.said());
  },

  async rich() {
    const server = await start("rich", ...asking);
    const page = await tab(server.url);
    check("the tools are listed", (await page.locator(".tools-list").innerText()).includes("memory_delete"));
    await say(page, "rich");
    await over(page);
    const prose = page.locator(".prose").last();
    const count = (selector) => prose.locator(selector).count();
    check("markdown: headings, lists, a table, code, a quote", await count(".h1") === 1 && await count("ol > li") === 3 && await count("ul li") === 4
      && await count("td") === 6 && await count("figure.code") === 1 && await count("blockquote") === 1, await prose.innerHTML());
    const links = await prose.locator("a").evaluateAll((links) => links.map((link) => [link.href, link.rel, link.innerText]));
    check("links name their host and open elsewhere", links.length === 2 && links[0][2].includes("(logs.example)") && links[0][1].includes("noopener"), JSON.stringify(links));
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.locator("figure.code .copy").click();
    await page.getByText("Copied").waitFor();
    check("code can be copied", (await page.evaluate(() => navigator.clipboard.readText())).startsWith("fn main()"));
    await audit(page, "answer");
    await page.locator("#main").evaluate((main) => { main.scrollTop = 0; });
    await picture(page, "answer");
    await say(page, "think");
    await over(page);
    check("reasoning is folded", !(await page.locator(".reasoning .prose").isVisible()) && (await page.locator(".reasoning summary").isVisible()));
    await page.locator(".reasoning summary").click();
    check("reasoning can be read", (await page.locator(".reasoning").innerText()).includes("Two and two"));
    await say(page, "big");
    await over(page);
    const shown = (await page.locator(".result pre").last().innerText()).length;
    await page.getByRole("button", { name: /Show all of the result/ }).last().click();
    check("a long result is folded", shown < 1100 && (await page.locator(".result pre").last().innerText()).length > 4000, shown);
    await say(page, "read");
    await over(page);
    check("a failed call is one", await page.locator(".call[data-state=failed]").count() === 1);
    // Coming back.
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll(".turn").length === 4);
    check("after a reload the conversation is there", (await page.locator("#list a[aria-current]").innerText()).includes("rich"));
    check("what it cost is shown", /tokens/.test(await page.locator("#list a").first().innerText()) && /1,200 tokens in \(800 cached\)/.test(await page.locator(".foot").first().innerText()), await page.locator(".foot").first().innerText());
    silent(page, "rich");
    await server.kill();
  },

  async streaming() {
    const server = await start("streaming", ...asking);
    const page = await tab(server.url);
    await say(page, "slow");
    await page.waitForFunction(() => document.querySelector(".prose")?.innerText.length > 500);
    check("while it streams, there is a Stop", await page.locator("#stop").isVisible() && !(await page.locator("#send").isVisible()));
    check("what it writes is read aloud", (await page.locator("#spoken").innerText()).includes("takes its time"));
    await picture(page, "streaming");
    await page.fill("#text", "more");
    await page.press("#text", "Enter");
    check("a message meanwhile is kept and refused in words", (await page.locator("#notice").innerText()).includes("has not ended") && await page.inputValue("#text") === "more");
    // Another tab of the same conversation, and one that reads from the start.
    const second = await tab(page.url(), page.context());
    await second.waitForFunction(() => document.querySelector(".prose")?.innerText.length > 600);
    check("another tab sees the run that streams", true);
    await page.press("#text", "Escape");
    await over(page);
    check("Escape stops the run", (await page.locator(".stopped").innerText()).includes("stopped"), await page.locator(".stopped").innerText());
    await over(second);
    const [one, two] = [await page.locator(".prose").first().innerText(), await second.locator(".prose").first().innerText()];
    check("both tabs have the same text", one === two, `${one.length} ${two.length}`);
    await say(page, "hello from the first tab");
    await second.waitForFunction(() => document.body.innerText.includes("You said: hello from the first tab"), null, { timeout: 15_000 });
    check("a new message of one tab appears in the other", await turns(second) === 2);
    // A message while the page still reads what other tabs did before it.
    await page.route("**/api/conversations/*", async (route) => {
      const response = await route.fetch();
      await wait(1_000);
      await route.fulfill({ response });
    });
    await page.evaluate(() => { app.reload(); });
    await say(page, "slow");
    await wait(2_000);
    check("a message that is sent while the page reads stays", await turns(page) === 3 && await page.locator("#stop").isVisible(), await turns(page));
    await page.unrouteAll({ behavior: "wait" });
    await page.press("#text", "Escape");
    await over(page);
    // A connection that breaks.
    await fresh(page);
    await say(page, "slow");
    await page.waitForFunction(() => document.querySelector(".prose")?.innerText.length > 200);
    await page.context().setOffline(true);
    await wait(500);
    await page.context().setOffline(false);
    await over(page);
    const text = (await page.locator(".prose").first().innerText()).trim();
    check("after the connection is back, the text is whole and nothing is there twice", text === "One word follows the other, and each takes its time. ".repeat(40).trim(), text.length);
    page.said = page.said.filter((line) => !/ERR_INTERNET_DISCONNECTED|ERR_NETWORK/.test(line));
    silent(page, "streaming");
    await server.kill();
  },

  async unknown() {
    const server = await start("unknown", "--base-url", model.url, "--model", "small", "--ask", "--mcp", `node ${process.cwd()}/pay.mjs`);
    const page = await tab(server.url);
    await say(page, "pay Ann");
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.waitForFunction(() => document.querySelector(".call")?.dataset.state === "pending");
    await wait(500);
    // Killed during the call, and started again.
    await server.kill("SIGKILL");
    const again = await start("unknown", "--base-url", model.url, "--model", "small", "--ask", "--mcp", `node ${process.cwd()}/pay.mjs`);
    const second = await tab(again.url);
    await second.locator("#list a").first().click();
    await second.locator(".question").waitFor();
    const card = second.locator(".call").last();
    check("a call that may have happened is a question again", (await card.innerText()).includes("nobody knows whether it has happened"), await card.innerText());
    check("it cannot just be approved", await card.getByRole("button", { name: "Approve", exact: true }).count() === 0);
    await audit(second, "unknown");
    await picture(second, "unknown");
    await card.getByRole("button", { name: "It has happened…" }).click();
    await card.getByLabel("The result").fill("5 euros were paid.");
    await card.getByRole("button", { name: "It has happened", exact: true }).click();
    await over(second);
    check("the model reads the result that the person gives", (await second.locator(".prose").last().innerText()).includes("5 euros were paid."), await second.locator(".turn").last().innerText());
    silent(second, "unknown");
    await again.kill();
  },

  // What an agent of the command does not write: the updates of a program of one's own.
  async below() {
    const server = await start("below", ...asking);
    const page = await tab(server.url);
    const path = [{ tool: "clerk", id: "c1" }];
    const question = { question: "q", run: "kate:c:1", id: "p1", name: "pay", arguments: "{\"to\":\"Ann\"}", effect: "irreversible" };
    const plays = {
      below: [
        { update: "text", text: "I ask the clerk." },
        { update: "called", place: 0, id: "c1", name: "clerk", arguments: "{\"task\":\"Pay Ann.\"}" },
        { update: "replied", cost: { input_tokens: 1, output_tokens: 1 } },
        { path, update: "text", text: "I pay **Ann**." },
        { path, update: "called", place: 0, id: "p1", name: "pay", arguments: question.arguments },
        { path, update: "replied", cost: { input_tokens: 1, output_tokens: 1 } },
        { path, update: "approval_asked", ...question },
        { path, update: "decided", id: "p1", decision: "approve", by: "kate" },
        { path, update: "result", id: "p1", name: "pay", text: "Paid.", milliseconds: 3 },
        { update: "result", id: "c1", name: "clerk", text: "The clerk has paid.", milliseconds: 30 },
        { update: "text", text: "It is paid." },
        { update: "replied", cost: { input_tokens: 1, output_tokens: 1 } },
        { update: "done", answer: "It is paid.", ending: "answered", cost: { input_tokens: 3, output_tokens: 3, money: "0.01 USD" } },
      ],
      typed: [
        { update: "answer", at: 0, text: "{\"total\": 4" },
        { update: "answer", at: 0, text: "{\"total\": 7, \"items\": [" },
        { update: "answer", at: 23, text: "\"<b>lamp</b>\"]}" },
        { update: "replied", cost: { input_tokens: 1, output_tokens: 1 } },
        { update: "done", answer: { total: 7, items: ["<b>lamp</b>"] }, ending: "answered", cost: { input_tokens: 1, output_tokens: 1 } },
      ],
    };
    await page.route("**/api/messages", (route) => {
      const { text } = JSON.parse(route.request().postData());
      const updates = [{ update: "started", run: "kate:c:1", text }, ...plays[text]];
      const body = updates.map((update, at) => `id: ${at + 1}.0\ndata: ${JSON.stringify(update)}\n\n`).join("");
      return route.fulfill({ contentType: "text/event-stream", body });
    });
    await say(page, "below");
    await page.getByText("It is paid.").last().waitFor();
    const [clerk, pay] = [page.locator(".call").first(), page.locator(".call .call").first()];
    check("an agent below is in the card of its call", (await pay.innerText()).includes("pay") && (await clerk.innerText()).includes("I pay"), await page.locator(".turn").innerText());
    check("its call has its decision and its result", (await pay.textContent()).includes("Approved by kate") && (await pay.textContent()).includes("Paid."), await pay.textContent());
    check("its text is markdown", await clerk.locator("strong").count() === 1);
    await audit(page, "below");
    await picture(page, "below");
    await say(page, "typed");
    await over(page);
    const typed = await page.locator(".turn").last().innerText();
    check("a typed answer is shown whole, as a text", typed.includes("<b>lamp</b>") && typed.includes("7") && !typed.includes("4"), typed);
    await audit(page, "typed");
    silent(page, "below");
    await server.kill();
  },

  async restart() {
    const server = await start("restart", ...asking, "--token");
    const page = await tab(server.url);
    check("the token is not in the address any more", !page.url().includes("token"));
    const stranger = await (await context()).newPage();
    check("without the token there is nothing", (await stranger.goto(new URL("/", server.url).href)).status() === 401);
    await say(page, "delete color");
    await page.locator(".question").waitFor();
    await server.kill();
    await page.getByText("cannot be reached").or(page.getByText("connection is lost")).first().waitFor({ timeout: 15_000 });
    check("a server that is gone is reported", true);
  },

  async approval() {
    const server = await start("approval", ...asking);
    const page = await tab(server.url);
    await say(page, "store");
    await over(page);
    await fresh(page);
    await say(page, "delete color");
    await page.locator(".question").waitFor();
    const card = page.locator(".call").last();
    check("the arguments are those of the model, to the last digit", (await card.innerText()).includes("12345678901234567890"), await card.innerText());
    check("the question says what the tool does", (await card.innerText()).includes("cannot be undone"));
    check("the question is announced", (await page.locator("#open").innerText()).includes("waits for you") && (await page.locator("#spoken").innerText()).includes("waits for your approval") && (await page.title()).startsWith("●"));
    await audit(page, "approval");
    await picture(page, "approval");
    const second = await tab(page.url(), page.context());
    await second.locator(".question").waitFor();
    // Edit.
    await card.getByRole("button", { name: "Edit…" }).click();
    const area = card.locator("textarea");
    check("the arguments can be edited, and are those of the model", (await area.inputValue()).includes("12345678901234567890"));
    await area.fill("{\"key\": ");
    check("what is not JSON is said, and cannot be sent", (await card.locator(".fault").first().innerText()).includes("not JSON") && await card.getByRole("button", { name: "Approve with these" }).isDisabled());
    await area.fill("{\"kei\": 1}");
    await card.getByRole("button", { name: "Approve with these" }).click();
    await card.locator(".fault", { hasText: "key" }).waitFor();
    check("arguments that do not fit are refused with the reason", true);
    await area.fill("{\"key\": \"color\"}");
    await picture(page, "edit");
    await card.getByRole("button", { name: "Approve with these" }).click();
    await over(page);
    check("the call was made with the edited arguments", (await card.innerText()).includes("Approved with other arguments by kate") && (await card.innerText()).includes("Deleted"), await card.innerText());
    await second.waitForFunction(() => document.querySelector(".call[data-state=done]"));
    check("the other tab has the decision", await second.locator(".question").count() === 0);
    await second.close();
    // Deny.
    await say(page, "delete it again");
    await page.locator(".question").waitFor();
    await page.getByRole("button", { name: "Deny…" }).click();
    await page.getByLabel("Reason").fill("Keep it.");
    await page.getByRole("button", { name: "Deny", exact: true }).click();
    await over(page);
    check("a refusal has its reason, which the model reads", (await page.locator(".call").last().innerText()).includes("Keep it.") && (await page.locator(".prose").last().innerText()).includes("Keep it."));
    // Two at once, by keys.
    await say(page, "delete-two");
    await page.waitForFunction(() => document.querySelectorAll(".question").length === 2);
    await page.getByRole("button", { name: "Go to it" }).click();
    check("the question has the focus", (await page.evaluate(() => document.activeElement.textContent)) === "Approve");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll(".question").length === 1 && document.activeElement.textContent === "Approve");
    check("after a decision the next question has the focus", true);
    await page.keyboard.press("Enter");
    await over(page);
    check("both calls have results", await page.locator(".call").last().getAttribute("data-state") !== "waiting");
    // Stop while it waits.
    await say(page, "delete and stop");
    await page.locator(".question").waitFor();
    await page.click("#stop");
    await over(page);
    check("a run that waits can be stopped", await page.locator(".question").count() === 0, await page.locator(".turn").last().innerText());
    silent(page, "approval", 422);
    await server.kill();
  },

  async again() {
    // A question survives the command.
    const first = await start("again", ...asking);
    let page = await tab(first.url);
    await say(page, "delete color");
    await page.locator(".question").waitFor();
    const hash = new URL(page.url()).hash;
    await first.kill();
    const server = await start("again", ...asking);
    page = await tab(`${server.url}${hash}`);
    await page.locator(".question").waitFor();
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await over(page);
    check("a question is answered after a restart", (await page.locator(".prose").last().innerText()).includes("The tool says"));
    await server.kill("SIGTERM");
  },

  async error() {
    const server = await start("error", ...asking);
    const page = await tab(server.url);
    await say(page, "fail once");
    await page.locator(".stopped.error").waitFor();
    check("an error is shown with its cause, as text", (await page.locator(".stopped").innerText()).includes("<b>pay</b>"), await page.locator(".stopped").innerText());
    await audit(page, "error");
    await picture(page, "error");
    await page.getByRole("button", { name: "Go on" }).click();
    await over(page);
    await page.waitForFunction(() => document.body.innerText.includes("Now it works."));
    check("the run goes on", await page.locator(".stopped").count() === 0);
    await fresh(page);
    await say(page, "break");
    await page.locator(".stopped.error").waitFor({ timeout: 60_000 });
    check("a reply that breaks is an error", (await page.locator(".prose").count()) === 0, await page.locator(".turn").innerText());
    await page.getByRole("button", { name: "End this run" }).click();
    await page.waitForFunction(() => !document.querySelector(".stopped.error"));
    await say(page, "hello");
    await page.waitForFunction(() => document.body.innerText.includes("You said: hello"));
    check("after it was ended, the conversation goes on", true);
    silent(page, "error");
    await server.kill();
  },

  async hostile() {
    const server = await start("hostile", ...asking);
    const page = await tab(server.url);
    const began = performance.now();
    await say(page, `hostile <b>x</b> \u202Egpj.exe`);
    await over(page);
    check("hostile markdown is shown in time", performance.now() - began < 15_000, `${Math.round(performance.now() - began)} ms`);
    const strange = await page.evaluate(() => document.querySelectorAll("#log :is(script, img, iframe, object, form, style, [onerror], b, i)").length);
    check("no element comes from a text", strange === 0, strange);
    check("no link is in a link", await page.locator("#log a a").count() === 0);
    const links = await page.locator("#log .prose a").evaluateAll((links) => links.map((link) => [link.getAttribute("href"), link.innerText]));
    check("links have http, https or mailto only", links.every(([href]) => /^(https?|mailto):/.test(href)), JSON.stringify(links));
    check("a link that looks like another names its host", links.some(([, text]) => text.includes("bank.example") && text.includes("(evil.example)")), JSON.stringify(links));
    const marks = await page.locator("#log .mark").allInnerTexts();
    check("hidden characters are marks, in all places", marks.filter((mark) => mark === "U+202E").length >= 3 && marks.includes("U+200B"), marks.join(" "));
    await fits(page, "hostile");
    await page.locator(".turn .call").scrollIntoViewIfNeeded();
    await page.locator("#main").evaluate((main) => { main.scrollTop = 0; });
    await picture(page, "hostile");
    silent(page, "hostile");
    await fresh(page);
    const start2 = performance.now();
    await say(page, "huge");
    await over(page);
    check("a line of a megabyte is shown in time", performance.now() - start2 < 20_000, `${Math.round(performance.now() - start2)} ms`);
    const typed = performance.now();
    await page.fill("#text", "still there");
    check("the page answers then", performance.now() - typed < 1500, `${Math.round(performance.now() - typed)} ms`);
    await fits(page, "huge");
    check("the hostile reply is the one that was written", HOSTILE.length > 30_000);
    silent(page, "huge");
    await server.kill();
  },

  async long() {
    const server = await start("long", ...asking);
    const page = await tab(server.url);
    const conversation = "long-one";
    await page.evaluate(async (conversation) => {
      for (let nth = 0; nth < 60; nth += 1) {
        const response = await fetch("api/messages", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ conversation, text: nth % 5 === 0 ? "rich" : nth % 3 === 0 ? "store" : `hello ${nth}` }) });
        await response.text();
      }
    }, conversation);
    await page.evaluate((conversation) => { location.hash = `c=${conversation}`; }, conversation);
    const began = performance.now();
    await page.waitForFunction(() => document.querySelectorAll(".turn").length === 60);
    check("60 runs are shown", true, `${Math.round(performance.now() - began)} ms`);
    await wait(500);
    check("it begins at its end", await page.evaluate(() => { const main = document.getElementById("main"); return main.scrollHeight - main.scrollTop - main.clientHeight < 80; }));
    await page.locator("#main").evaluate((main) => { main.scrollTop = 100; });
    await wait(200);
    await say(page, "hello at the end");
    await over(page);
    check("a person who sends sees the end", await page.evaluate(() => { const main = document.getElementById("main"); return main.scrollHeight - main.scrollTop - main.clientHeight < 120; }));
    await page.locator("#main").evaluate((main) => { main.scrollTop = 100; });
    await page.locator("#down").waitFor();
    check("from above, a button leads to the newest", true);
    const listing = performance.now();
    await page.waitForFunction(() => document.getElementById("list").textContent.includes("61 runs"));
    check("the list has all runs", true, `${Math.round(performance.now() - listing)} ms later`);
    await picture(page, "long");
    silent(page, "long");
    await server.kill();
  },

  async phone() {
    const server = await start("phone", ...asking);
    const made = await context({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
    const page = await tab(server.url, made);
    await fits(page, "phone, empty");
    await say(page, "rich");
    await over(page);
    await fits(page, "phone, answer");
    await say(page, "delete color");
    await page.locator(".question").waitFor();
    await fits(page, "phone, approval");
    const small = await page.evaluate(() => [...document.querySelectorAll("button, summary, #side a")].filter((one) => one.checkVisibility({ visibilityProperty: true })).map((one) => [one.textContent, one.getBoundingClientRect().height]).filter(([, height]) => height < 24));
    check("what can be touched is large enough", small.length === 0, JSON.stringify(small));
    await audit(page, "phone");
    await picture(page, "phone");
    await page.click("#menu");
    await page.locator("#list a").first().waitFor();
    await wait(300);
    check("the list of conversations opens over the page", await page.locator("#side").evaluate((side) => side.getBoundingClientRect().left >= 0));
    await picture(page, "phone-menu");
    await page.keyboard.press("Escape");
    check("Escape closes it, and has not stopped the run", await page.locator("#menu").getAttribute("aria-expanded") === "false" && await page.locator(".question").isVisible());
    silent(page, "phone");
    await server.kill();
  },

  async dark() {
    const server = await start("dark", ...asking);
    const made = await context({ colorScheme: "dark", reducedMotion: "reduce" });
    const page = await tab(server.url, made);
    await say(page, "rich");
    await over(page);
    await say(page, "read");
    await over(page);
    await say(page, "delete color");
    await page.locator(".question").waitFor();
    await audit(page, "dark");
    await picture(page, "dark");
    check("nothing moves for people who do not want it", await page.evaluate(() => document.getAnimations().length === 0));
    await server.kill();
  },

  async keyboard() {
    const server = await start("keyboard", ...asking);
    const page = await tab(server.url);
    const active = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
    check("the message has the focus at the start", await active() === "text", await active());
    await page.keyboard.type("first line");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("second line");
    check("Shift+Enter begins a line", (await page.inputValue("#text")) === "first line\nsecond line" && await turns(page) === 0);
    await page.keyboard.press("Enter");
    await over(page);
    check("Enter sends", (await page.locator(".said").innerText()).includes("second line"));
    await page.keyboard.type("delete color");
    await page.keyboard.press("Enter");
    await page.locator(".question").waitFor();
    check("a question does not take the focus", await active() === "text");
    const stops = [];
    let ring = true;
    await page.locator(".skip").focus();
    for (let nth = 0; nth < 40; nth += 1) {
      await page.keyboard.press("Tab");
      const [name, outline] = await page.evaluate(() => [document.activeElement.id || document.activeElement.textContent.slice(0, 20), document.activeElement === document.body ? "none" : getComputedStyle(document.activeElement).outlineStyle]);
      if (outline === "none" && stops.length > 5) break;
      stops.push(name);
      ring &&= outline !== "none";
    }
    check("Tab goes to everything, and the focus can be seen", ring && ["new", "Approve", "Edit…", "Deny…", "text", "stop"].every((one) => stops.some((stop) => stop.startsWith(one))), stops.join(", "));
    await page.getByRole("button", { name: "Deny…" }).focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    check("Escape in an answer goes back, and does not stop the run", await active() === "Approve" && await page.locator(".question").isVisible(), await active());
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.type("no");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await over(page);
    check("a call is denied with keys alone", (await page.locator(".call").last().innerText()).includes("no"));
    check("after it the message has the focus", await active() === "text", await active());
    silent(page, "keyboard");
    await server.kill();
  },

  async attachments() {
    const server = await start("attachments", ...asking);
    const page = await tab(server.url);
    const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIAQMAAAD+wSzIAAAABlBMVEX///+/v7+jQ3Y5AAAADklEQVQI12P4AIX8EAgALgAD/aNpbtEAAAAASUVORK5CYII", "base64");
    check("files can be attached", await page.locator("#attach").isVisible());
    await page.setInputFiles("#file", [{ name: "dot.png", mimeType: "image/png", buffer: png }]);
    await page.locator("#chips img").waitFor();
    // By dropping and pasting.
    const transfer = async (kind, target) => page.evaluate(([kind, target, bytes]) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], `${kind}.png`, { type: "image/png" }));
      const event = kind === "drop" ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }) : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      document.querySelector(target).dispatchEvent(event);
    }, [kind, target, [...png]]);
    await transfer("drop", "#main");
    await transfer("paste", "#text");
    await page.waitForFunction(() => document.querySelectorAll("#chips li").length === 3);
    check("files can be dropped and pasted", true);
    await page.getByRole("button", { name: "Remove paste.png" }).click();
    await page.setInputFiles("#file", [{ name: "what.zzz9", mimeType: "", buffer: png }]);
    await page.locator("#notice").waitFor();
    check("a file of an unknown kind is refused in words", (await page.locator("#notice").innerText()).includes("what.zzz9"));
    await say(page, "image what is it?");
    await over(page);
    check("the model gets the attachments", (await page.locator(".prose").last().innerText()).includes("<image_url> <image_url>") || /image_url.*image_url/.test(await page.locator(".prose").last().innerText()), await page.locator(".turn").last().innerText());
    await page.reload();
    await page.locator(".turn .chips li").first().waitFor();
    check("after a reload the kinds are there", (await page.locator(".turn .chips").innerText()).includes("image/png"));
    silent(page, "attachments");
    await server.kill();
  },
};

for (const [name, play] of Object.entries(scenes)) {
  if (only && !only.split(",").includes(name)) continue;
  console.log(`-- ${name}`);
  try {
    await play();
  } catch (error) {
    for (const child of running) child.kill("SIGKILL");
    running.clear();
    check(name, false, error.stack.split("\n").slice(0, 6).join("\n     "));
  }
  for (const open of browser.contexts()) await open.close();
}
await browser.close();
model.close();
console.log(failures === 0 ? "all checks passed" : `${failures} checks failed`);
process.exit(failures === 0 ? 0 : 1);
