// Checks the pages in a folder in Chromium. See run.sh.
import { spawn } from "node:child_process";
import { readFileSync, mkdirSync, appendFileSync, statSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { chromium } from "playwright-core";

const folder = process.argv[2];
const runs = ["short", "failed", "down", "waiting", "decided", "hostile", "long"];
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
const url = (run) => `file://${folder}/${run}.html`;
let failures = 0;
const check = (what, ok, found = "") => {
  if (!ok) failures += 1;
  console.log(`${ok ? "ok  " : "FAIL"} ${what}${ok && found === "" ? "" : `: ${found}`}`);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
console.log(`Chromium ${browser.version()}`);

// A page, with everything that it says and asks for.
const open = async (run, { width = 1200, height = 900, scheme = "light", script = true } = {}) => {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: scheme, javaScriptEnabled: script, deviceScaleFactor: 1,
  });
  const page = await context.newPage();
  const said = [], asked = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("dialog", (dialog) => { said.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (request.url() !== url(run)) asked.push(request.url()); });
  await page.goto(url(run));
  return { page, said, asked, close: () => context.close() };
};

const openAll = (page) => page.evaluate(() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

for (const run of runs) {
  const { page, said, asked, close } = await open(run);
  if (run !== "long") await openAll(page);
  await page.waitForTimeout(200);
  check(`${run}: the console is silent`, said.length === 0, said.join(" | "));
  check(`${run}: nothing is requested`, asked.length === 0, asked.join(" "));
  const strange = await page.evaluate(() => document.querySelectorAll("img, iframe, object, link, form[action], body style, script[src], [onerror], [style]").length);
  check(`${run}: there are no foreign elements`, strange === 0, strange);
  const ids = await page.evaluate(() => {
    const seen = new Set(), twice = [];
    for (const { id } of document.querySelectorAll("[id]")) seen.has(id) ? twice.push(id) : seen.add(id);
    const lost = [...document.querySelectorAll('a[href^="#"]')].map((link) => link.hash.slice(1)).filter((id) => !seen.has(id));
    return [...twice, ...lost].join(" ");
  });
  check(`${run}: ids are unique, and links lead somewhere`, ids === "", ids);
  await close();
}

// Contrast, names and roles, by axe, with everything open.
for (const run of runs.filter((run) => run !== "long")) {
  for (const scheme of ["light", "dark"]) {
    const { page, close } = await open(run, { scheme });
    await openAll(page);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }));
    const found = violations.map(({ id, nodes }) => `${id} ${nodes.slice(0, 3).map((node) => `${node.target} ${node.any.map((any) => any.message)}`).join("; ")}`);
    check(`${run}, ${scheme}: axe finds nothing, and contrast is at least 4.5`, found.length === 0, found.join("\n     "));
    await close();
  }
}

// A phone.
for (const run of runs) {
  for (const script of [true, false]) {
    const { page, close } = await open(run, { width: 360, height: 740, script });
    if (script && run !== "long") await openAll(page);
    const wide = script
      ? await page.evaluate(() => [document.documentElement.scrollWidth, [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest("summary .what, .skip")).slice(0, 3).map((one) => `${one.tagName}.${one.className}`)])
      : [Math.round((await page.locator("body").boundingBox()).width), []];
    check(`${run}: 360 pixels are wide enough${script ? "" : " without a script"}`, wide[0] <= 360 && wide[1].length === 0, wide.join(" "));
    await close();
  }
}

// Without a script everything can be opened.
{
  const { page, close } = await open("failed", { script: false });
  await page.locator("details.step > summary").first().click();
  check("without a script, a step opens", await page.getByText("Arguments, as the model wrote them").first().isVisible());
  check("without a script, there is no search that does nothing", !(await page.locator("#search").isVisible()));
  await close();
}

// Keys only.
{
  const { page, close } = await open("failed");
  const active = () => page.evaluate(() => document.activeElement.closest("details")?.id ?? document.activeElement.id);
  await page.keyboard.press("j");
  check("j goes to the first step", (await active()) === "s0", await active());
  await page.keyboard.press("Enter");
  check("Enter opens it", await page.evaluate(() => document.getElementById("s0").open));
  await page.keyboard.press("j");
  check("j goes to the call in it", (await active()) === "s0c0", await active());
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  check("Enter closes it", await page.evaluate(() => !document.getElementById("s0").open));
  await page.keyboard.press("e");
  const first = await active();
  await page.keyboard.press("e");
  check("e goes from error to error", first === "s0c0s0c0" && (await active()) === "s1c0", `${first} ${await active()}`);
  await page.keyboard.press("/");
  await page.keyboard.type("send_mail");
  await page.waitForFunction(() => document.getElementById("count").textContent !== "");
  check("/ searches", (await page.locator("#count").textContent()) === "1 of 7", await page.locator("#count").textContent());
  await page.keyboard.press("Escape");
  check("Escape ends the search", (await page.locator("details.step[data-top]:visible").count()) === 7);
  await page.keyboard.press("Tab");
  let tabs = 0, ring = true;
  for (; tabs < 60; tabs += 1) {
    const [at, outline] = await page.evaluate(() => [document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]);
    if (at === "BODY") break;
    ring &&= outline !== "none";
    await page.keyboard.press("Tab");
  }
  check("Tab goes through the page, and the focus can be seen", tabs > 8 && ring, `${tabs} stops`);
  await page.goto(`${url("failed")}#s0c0s0c0`);
  await page.waitForTimeout(100);
  check("a link opens the steps around its place", await page.evaluate(() => document.getElementById("s0c0s0c0").checkVisibility()));
  await close();
}

// 2,000 steps.
{
  const { page, close } = await open("long");
  const load = await page.evaluate(() => {
    const [entry] = performance.getEntriesByType("navigation");
    return [Math.round(entry.domContentLoadedEventEnd), Math.round(entry.loadEventEnd)];
  });
  const steps = await page.locator("details.step[data-top]").count();
  check("2,000 steps load in 2 seconds", steps === 2000 && load[1] < 2000, `${load[1]} ms, ${statSync(`${folder}/long.html`).size} bytes`);
  const timed = async (what, most, script, argument) => {
    const start = performance.now();
    await page.evaluate(script, argument);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    const time = Math.round(performance.now() - start);
    check(`${what} within ${most} ms`, time < most, `${time} ms`);
  };
  await timed("a search in 2,000 steps", 1500, async () => {
    const search = document.getElementById("search");
    search.value = "invoice 1066";
    search.dispatchEvent(new Event("input"));
    while (document.getElementById("count").textContent === "") await new Promise((done) => setTimeout(done, 10));
  });
  const count = await page.locator("#count").textContent();
  check("the search finds the step", /^[1-9]\d? of 2000$/.test(count), count);
  await timed("errors only", 1000, () => {
    document.getElementById("search").value = "";
    document.getElementById("only").click();
  });
  await timed("all groups open", 1500, () => {
    document.getElementById("only").click();
    for (const group of document.querySelectorAll("details.group")) group.open = true;
    return document.body.offsetHeight;
  });
  await timed("a jump to step 1,900", 1000, () => { location.hash = "#s1899"; });
  check("the jump shows the step", await page.evaluate(() => document.getElementById("s1899").getBoundingClientRect().top < innerHeight));
  await close();
}

// A page that follows its run: a copy of the journal grows, and the page in the browser with it.
{
  const runs = `${folder}/growing`;
  mkdirSync(runs, { recursive: true });
  const journal = readFileSync(`${folder}/runs/failed.journal`, "utf8").split("\n");
  const file = `${runs}/failed.journal`;
  writeFileSync(file, `${journal.slice(0, 6).join("\n")}\n`);
  const out = `${folder}/live.html`;
  const follow = spawn(process.env.COMMAND, ["runs", "--journal", runs, "page", "failed", "--follow", "-o", out], { stdio: "inherit" });
  const ended = once(follow, "exit");
  await new Promise((done) => setTimeout(done, 1000));
  const { page, said, asked, close } = await open("live");
  check("a live page says so", await page.locator(".live").isVisible());
  await page.locator("details.step > summary").first().click();
  const before = await page.locator("details.step[data-top]").count();
  for (const line of journal.slice(6)) if (line !== "") appendFileSync(file, `${line}\n`);
  await ended;
  check("the command ends with its run", follow.exitCode === 0, follow.exitCode);
  await page.waitForSelector(".pill.bad", { timeout: 10_000 });
  const after = await page.locator("details.step[data-top]").count();
  check("the page goes on by itself", after > before, `${before} steps, then ${after}`);
  check("an open step stays open", await page.evaluate(() => document.getElementById("s0").open));
  check("the page rests at the end", !(await page.locator(".live").isVisible()) && said.length === 0 && asked.length === 0, [...said, ...asked].join(" "));
  await close();
}

// Screenshots.
const picture = async (name, run, options, prepare) => {
  const { page, close } = await open(run, options);
  if (prepare) await prepare(page);
  await page.waitForTimeout(150);
  await page.screenshot({ path: `pictures/${name}.png`, fullPage: options.full ?? false });
  await close();
};
const opened = (...ids) => (page) => page.evaluate((ids) => {
  for (const id of ids) document.getElementById(id).open = true;
}, ids);
const size = { width: 1000, height: 800 };
const at = (id) => (page) => page.evaluate((id) => document.getElementById(id).scrollIntoView(), id);
await picture("run-short", "short", { ...size, full: true }, opened("s0"));
await picture("run-failed", "failed", { ...size, height: 1080 });
await picture("run-failed-step", "failed", { ...size, height: 1080 }, async (page) => {
  await opened("s0", "s0c0s0")(page);
  await at("steps")(page);
});
await picture("run-waiting", "waiting", { ...size, height: 760 });
await picture("run-decided", "decided", size, async (page) => {
  await opened("s1")(page);
  await at("s1")(page);
});
await picture("run-long-dark", "long", { ...size, height: 1000, scheme: "dark" }, async (page) => {
  await page.evaluate(() => { document.querySelectorAll("details.group")[1].open = true; });
  await at("answer")(page);
});
await picture("run-failed-phone", "failed", { width: 360, height: 860 });

await browser.close();
console.log(failures === 0 ? "all checks passed" : `${failures} checks failed`);
process.exit(failures === 0 ? 0 : 1);
