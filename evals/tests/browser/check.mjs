// Checks the pages of reports in Chromium. See run.sh.
import { readFileSync, statSync } from "node:fs";
import { chromium } from "playwright-core";

const folder = process.argv[2];
const reports = ["small", "hostile", "long"];
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
const url = (report) => `file://${folder}/${report}/report.html`;
let failures = 0;
const check = (what, ok, found = "") => {
  if (!ok) failures += 1;
  console.log(`${ok ? "ok  " : "FAIL"} ${what}${ok && found === "" ? "" : `: ${found}`}`);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
console.log(`Chromium ${browser.version()}`);

// A page, with everything that it says and asks for.
const open = async (report, { width = 1200, height = 900, scheme = "light", script = true } = {}) => {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: scheme, javaScriptEnabled: script, deviceScaleFactor: 1,
  });
  const page = await context.newPage();
  const said = [], asked = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("dialog", (dialog) => { said.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (request.url() !== url(report)) asked.push(request.url()); });
  await page.goto(url(report));
  return { page, said, asked, close: () => context.close() };
};
const openAll = (page) => page.evaluate(() => {
  for (const link of document.querySelectorAll(".attempts .line a")) {
    if (link.getAttribute("aria-expanded") !== "true") link.click();
  }
  for (const details of document.querySelectorAll("details")) details.open = true;
});

for (const report of reports) {
  const { page, said, asked, close } = await open(report);
  if (report !== "long") await openAll(page);
  await page.waitForTimeout(200);
  check(`${report}: the console is silent`, said.length === 0, said.join(" | "));
  check(`${report}: nothing is requested`, asked.length === 0, asked.join(" "));
  const strange = await page.evaluate(() => document.querySelectorAll("img, iframe, object, link, form[action], body style, script[src], [onerror], [style]").length);
  check(`${report}: there are no foreign elements`, strange === 0, strange);
  const ids = await page.evaluate(() => {
    const seen = new Set(), twice = [];
    for (const { id } of document.querySelectorAll("[id]")) seen.has(id) ? twice.push(id) : seen.add(id);
    const lost = [...document.querySelectorAll('a[href^="#"]')].map((link) => link.hash.slice(1)).filter((id) => !seen.has(id));
    return [...twice, ...lost].join(" ");
  });
  check(`${report}: ids are unique, and links lead somewhere`, ids === "", ids);
  await close();
}

// Contrast, names and roles, by axe, with everything open.
for (const report of ["small", "hostile"]) {
  for (const scheme of ["light", "dark"]) {
    for (const width of [1200, 360]) {
      const { page, close } = await open(report, { scheme, width });
      await openAll(page);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }));
      const found = violations.map(({ id, nodes }) => `${id} ${nodes.slice(0, 3).map((node) => `${node.target} ${node.any.map((any) => any.message)}`).join("; ")}`);
      check(`${report}, ${scheme}, ${width} pixels: axe finds nothing`, found.length === 0, found.join("\n     "));
      await close();
    }
  }
}

// A phone.
for (const report of reports) {
  for (const script of [true, false]) {
    const { page, close } = await open(report, { width: 360, height: 740, script });
    if (script && report !== "long") await openAll(page);
    const wide = script
      ? await page.evaluate(() => [document.documentElement.scrollWidth, [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest("summary .what, .skip")).slice(0, 3).map((one) => `${one.tagName}.${one.className}`)])
      : [Math.round((await page.locator("body").boundingBox()).width), []];
    check(`${report}: 360 pixels are wide enough${script ? "" : " without a script"}`, wide[0] <= 360 && wide[1].length === 0, wide.join(" "));
    await close();
  }
}

// Without a script, a link opens its attempt.
{
  const { page, close } = await open("small", { script: false });
  check("without a script, attempts are closed", !(await page.locator("#a2").isVisible()));
  await page.locator(".line a").nth(2).click();
  check("without a script, a link opens its attempt", await page.locator("#a2").isVisible());
  check("without a script, there are no filters that do nothing", !(await page.locator("#search").isVisible()));
  await close();
}

// Filters, keys and links.
{
  const { page, close } = await open("small");
  const shown = () => page.locator(".attempts > tbody:visible").count();
  const all = await page.locator(".attempts > tbody").count();
  const failed = await page.locator(".attempts > tbody[data-bad]").count();
  await page.locator("#only").check();
  check("failed only", (await shown()) === failed && failed > 0 && failed < all, `${await shown()} of ${failed}`);
  await page.locator("#by").selectOption({ label: "no failed calls" });
  const by = await shown();
  check("a grader", by > 0 && by < failed, by);
  await page.locator("#by").focus();
  await page.keyboard.press("Escape");
  check("Escape shows all attempts", (await shown()) === all);
  await page.keyboard.press("/");
  await page.keyboard.type("order 16,");
  await page.waitForFunction(() => document.getElementById("count").textContent !== "");
  check("/ searches, also in what is closed", (await page.locator("#count").textContent()) === `2 of ${all}`, await page.locator("#count").textContent());
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  const active = () => page.evaluate(() => document.activeElement.hash);
  check("j goes to the first attempt", (await active()) === "#a0", await active());
  await page.keyboard.press("Enter");
  check("Enter opens it", await page.locator("#a0").isVisible());
  await page.keyboard.press("Enter");
  check("Enter closes it", !(await page.locator("#a0").isVisible()));
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  check("k goes back", (await active()) === "#a0", await active());
  await page.keyboard.press("e");
  check("e goes to an attempt that fails", await page.evaluate(() => document.activeElement.closest("tbody").dataset.bad !== undefined));
  await page.locator(".line").nth(1).locator("td").last().click();
  check("a click on a line opens it", await page.locator("#a1").isVisible());
  await page.locator("#comparison ~ p a").first().click();
  check("a case that became worse opens", await page.evaluate(() => document.activeElement.getAttribute("aria-expanded") === "true"));
  const links = page.locator(".more a", { hasText: "The page of the run" });
  check("each attempt that fails has a link to its run, and no other", (await links.count()) === failed, await links.count());
  const target = await links.first().getAttribute("href");
  await page.goto(`${url("small").replace("report.html", target)}`);
  check("the page of the run is there", (await page.locator("#steps").count()) === 1);
  await page.goto(`${url("small")}#a3`);
  check("a link from outside opens its attempt", await page.locator("#a3").isVisible());
  let ring = true, tabs = 0;
  await page.locator("#search").focus();
  for (; tabs < 30; tabs += 1) {
    await page.keyboard.press("Tab");
    const [at, outline] = await page.evaluate(() => [document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]);
    if (at === "BODY") break;
    ring &&= outline !== "none";
  }
  check("Tab goes through the page, and the focus can be seen", tabs > 8 && ring, `${tabs} stops`);
  await close();
}

// 1,000 attempts.
{
  const { page, close } = await open("long");
  const load = await page.evaluate(() => {
    const [entry] = performance.getEntriesByType("navigation");
    return Math.round(entry.loadEventEnd);
  });
  const attempts = await page.locator(".attempts > tbody").count();
  check("1,000 attempts load in 3 seconds", attempts === 1000 && load < 3000, `${load} ms, ${statSync(`${folder}/long/report.html`).size} bytes`);
  const timed = async (what, most, script) => {
    const start = performance.now();
    await page.evaluate(script);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    const time = Math.round(performance.now() - start);
    check(`${what} within ${most} ms`, time < most, `${time} ms`);
  };
  await timed("a search in 1,000 attempts", 1500, async () => {
    const search = document.getElementById("search");
    search.value = "there is no order";
    search.dispatchEvent(new Event("input"));
    while (document.getElementById("count").textContent === "") await new Promise((done) => setTimeout(done, 10));
  });
  const count = await page.locator("#count").textContent();
  check("the search finds the attempts", /^[1-9]\d* of 1000$/.test(count), count);
  await timed("failed only", 1000, () => {
    document.getElementById("search").value = "";
    document.getElementById("only").click();
  });
  await timed("an attempt opens", 500, () => document.querySelectorAll(".attempts > tbody:not([hidden]) .line a")[5].click());
  await timed("a jump to attempt 900", 1000, () => { location.hash = "#a899"; });
  check("the jump shows the attempt", await page.evaluate(() => { const box = document.getElementById("a899").getBoundingClientRect(); return box.top < innerHeight && box.bottom > 0; }));
  await close();
}

// Screenshots.
const picture = async (name, options, prepare) => {
  const { page, close } = await open("small", options);
  await page.evaluate(prepare);
  await page.waitForTimeout(150);
  await page.screenshot({ path: `pictures/${name}.png` });
  await close();
};
await picture("eval-report", { width: 1000, height: 1160 }, () => {
  document.querySelector(".attempts > tbody[data-bad] .line a").click();
  scrollTo(0, 0);
});
await picture("eval-report-dark-phone", { width: 360, height: 860, scheme: "dark" }, () => {
  const link = document.querySelector(".attempts > tbody[data-bad] .line a");
  link.click();
  document.getElementById("attempts").scrollIntoView();
});
await picture("eval-report-phone-top", { width: 360, height: 860, scheme: "dark" }, () => {});

await browser.close();
console.log(failures === 0 ? "all checks passed" : `${failures} checks failed`);
process.exit(failures === 0 ? 0 : 1);
