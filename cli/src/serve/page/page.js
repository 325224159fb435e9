// The page: conversations, the stream of a run, and what the user sends.

// Reads JSON. A number that JavaScript would round is kept as it is written, where the browser can.
const readJson = (text) => JSON.rawJSON
  ? JSON.parse(text, (_, value, context) => typeof value === "number" && context?.source !== undefined && String(value) !== context.source ? JSON.rawJSON(context.source) : value)
  : JSON.parse(text);

const newId = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const ago = (milliseconds) => {
  const seconds = Math.max(0, (Date.now() - milliseconds) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return new Date(milliseconds).toLocaleDateString(undefined, { day: "numeric", month: "short" });
};

// An error that the server reports.
class Refused extends Error {
  constructor(text, status, wait) { super(text); this.status = status; this.wait = wait; }
}

const ask = async (path, options = {}) => {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  if (response.ok) return response;
  let text;
  try { text = (await response.json()).error; } catch { text = `the server answered with the status ${response.status}`; }
  throw new Refused(text, response.status, Number(response.headers.get("retry-after") ?? 0));
};

const read = async (path) => readJson(await (await ask(path)).text());

const post = (path, body, options = {}) => ask(path, { method: "POST", headers: body === undefined ? {} : { "content-type": "application/json" }, body, ...options });

// Reads server-sent events from a response. Returns when the stream has ended.
const readEvents = async (response, each) => {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let lines = [], part = [];
  const dispatch = () => {
    let id, data = [];
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line.startsWith("id:")) id = line.slice(3).trim();
    }
    lines = [];
    if (data.length > 0) each(data.join("\n"), id);
  };
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    let from = 0;
    for (let at = value.indexOf("\n"); at >= 0; at = value.indexOf("\n", from)) {
      // A line of a megabyte comes in many parts, which are joined once.
      part.push(value.slice(from, at));
      const line = part.join("").replace(/\r$/, "");
      part = [];
      from = at + 1;
      if (line === "") dispatch(); else lines.push(line);
    }
    if (from < value.length) part.push(value.slice(from));
  }
};

const $ = (id) => document.getElementById(id);

const app = {
  about: null,
  conversation: null,
  runs: [],
  listed: new Map(),
  attachments: [],
  // The stream that is open.
  stream: null,
  isAtEnd: true,
  channel: "BroadcastChannel" in window ? new BroadcastChannel("toolwright") : null,

  // Texts for people who hear the page. They are read one after the other.
  speak(text) {
    const spoken = $("spoken");
    spoken.append(el("p", {}, text));
    while (spoken.childElementCount > 20) spoken.firstElementChild.remove();
  },

  notice(text, act) {
    const notice = $("notice");
    notice.replaceChildren();
    notice.hidden = !text;
    if (!text) return;
    addText(notice, text, true);
    if (act) notice.append(" ", act);
    else notice.append(" ", el("button", { type: "button", class: "small", click: () => app.notice("") }, "Close"));
  },

  // Something was added at the end.
  grown() {
    if (this.isGrowing) return;
    this.isGrowing = true;
    requestAnimationFrame(() => {
      this.isGrowing = false;
      this.update();
      const main = $("main");
      if (this.isAtEnd) main.scrollTop = main.scrollHeight;
      $("down").hidden = this.isAtEnd || main.scrollHeight <= main.clientHeight + 40;
    });
  },

  last() { return this.runs.at(-1); },

  isBusy() { return this.last() !== undefined && this.last().rest !== "over"; },

  // Shows the state of the last run at the buttons.
  update() {
    const last = this.last(), asked = last ? [...last.asked()] : [];
    const isBusy = this.isBusy();
    for (const run of this.runs) run.busy.hidden = !(run === last && isBusy && asked.length === 0);
    $("send").hidden = isBusy;
    $("stop").hidden = !isBusy;
    $("log").setAttribute("aria-busy", String(isBusy && asked.length === 0));
    $("empty").hidden = this.runs.length > 0;
    const open = $("open");
    open.hidden = asked.length === 0;
    const ids = asked.map((card) => card.asked.question).join();
    if (asked.length > 0 && open.dataset.ids !== ids) {
      const go = el("button", { type: "button", class: "small", click: () => {
        asked[0].element.scrollIntoView({ block: "center" });
        asked[0].question.querySelector("button")?.focus();
      } }, "Go to it");
      open.replaceChildren(asked.length === 1 ? "A call waits for you. " : `${asked.length} calls wait for you. `, go);
    }
    open.dataset.ids = ids;
    const title = this.listed.get(this.conversation)?.title ?? "";
    const shown = title.trim() === "" ? (this.runs.length > 0 ? "Conversation" : "New conversation") : title;
    if ($("title").dataset.text !== shown) {
      $("title").dataset.text = shown;
      $("title").replaceChildren(textOf(shown));
    }
    document.title = `${asked.length > 0 ? "● " : ""}${shown.slice(0, 60)} – Toolwright`;
  },

  // Conversations.

  begin() { location.hash = `c=${newId()}`; },

  async open(conversation) {
    this.close();
    this.conversation = conversation;
    this.runs = [];
    $("log").replaceChildren();
    this.isAtEnd = true;
    this.notice("");
    this.showList();
    await this.reload();
    this.update();
  },

  close() {
    this.stream?.abort();
    this.stream = null;
  },

  // Takes what other tabs and programs have done in the conversation.
  async reload() {
    const { conversation, stream } = this;
    let told;
    try {
      told = (await read(`api/conversations/${encodeURIComponent(conversation)}`)).runs;
    } catch (error) {
      if (conversation === this.conversation) this.failed(error);
      return;
    }
    // A message that was sent meanwhile is not in this answer. What else is new comes after its stream.
    if (conversation !== this.conversation || (this.stream && this.stream !== stream)) return;
    this.runs = this.runs.filter((view) => {
      const isThere = told.some((run) => run.run === view.id);
      if (!isThere) view.element.remove();
      return isThere;
    });
    const views = [];
    for (const run of told) {
      let view = this.runs.find((view) => view.id === run.run);
      const isSame = view && (view === this.streamed || (view.position === run.position && view.rest === run.rest));
      if (!isSame) {
        const made = new RunView(this, run.run);
        made.isQuiet = true;
        made.sent = view?.sent;
        for (const update of run.updates) made.apply(update);
        made.isQuiet = false;
        made.spoken = made.lastText.length;
        made.position = run.position;
        made.rest = run.rest;
        if (run.rest === "over" && !made.foot.hasChildNodes()) made.footer(null);
        view?.element.remove();
        view = made;
      }
      views.push(view);
      // It moves only what is not in its place.
      const place = $("log").children[views.length - 1];
      if (place !== view.element) $("log").insertBefore(view.element, place ?? null);
    }
    this.runs = views;
    this.grown();
    this.follow();
  },

  failed(error) {
    if (error instanceof Refused && error.status === 401) this.notice(`${error.message}.`);
    else if (error instanceof Refused) this.notice(error.message);
    else this.notice("The server cannot be reached. The page tries again.");
  },

  async list() {
    let found;
    // Of two answers, the one to the earlier request may come later.
    const nth = this.asks = (this.asks ?? 0) + 1;
    try {
      const text = await (await ask("api/conversations")).text();
      if (nth !== this.asks) return;
      if (this.isLost) { this.isLost = false; this.notice(""); }
      if (text === this.listText) return;
      this.listText = text;
      found = readJson(text).conversations;
    } catch (error) {
      this.isLost = true;
      this.failed(error);
      return;
    }
    const before = this.listed.get(this.conversation);
    this.listed = new Map(found.map((one) => [one.conversation, one]));
    this.showList();
    this.update();
    const now = this.listed.get(this.conversation);
    const isOther = JSON.stringify(before) !== JSON.stringify(now);
    if (isOther && !this.stream && now) await this.reload();
  },

  showList() {
    const focused = document.activeElement?.closest?.("#list a")?.getAttribute("href");
    $("list").replaceChildren(...[...this.listed.values()].map((one) => {
      const tokens = one.cost.input_tokens + one.cost.output_tokens;
      const parts = [one.status === "finished" ? null : { open: "not ended", waiting: "waits for you", failed: "stopped" }[one.status] ?? one.status,
        ago(one.changed), one.runs > 1 ? `${one.runs} runs` : null,
        tokens > 0 ? one.cost.money ?? `${number(tokens)} tokens` : null];
      return el("li", {}, el("a", { href: `#c=${encodeURIComponent(one.conversation)}`, "aria-current": one.conversation === this.conversation ? "page" : undefined, "data-status": one.status },
        el("span", { class: "name" }, textOf(one.title.trim() === "" ? "(attachment)" : one.title.slice(0, 200))),
        el("span", { class: "faint" }, parts.filter((part) => part).join(" · "))));
    }));
    if (focused) $("list").querySelector(`a[href="${CSS.escape(focused).replaceAll("\\", "\\\\")}"]`)?.focus();
  },

  async showOthers() {
    try {
      const { runs } = await read("others");
      $("others-list").replaceChildren(...(runs.length === 0 ? [el("li", { class: "faint" }, "There are none.")] : runs.map((run) => el("li", {},
        el("a", { href: `runs/${encodeURIComponent(run.id)}/page`, target: "_blank", rel: "noopener", "data-status": run.status },
          el("span", { class: "name" }, textOf(run.task || run.id)),
          el("span", { class: "faint" }, textOf([run.command, run.status, ago(run.changed), run.money ?? (run.tokens ? `${number(run.tokens)} tokens` : "")].filter((part) => part).join(" · "))))))));
    } catch (error) { this.failed(error); }
  },

  // Streams.

  // Follows the last run until it ends, also over a connection that breaks.
  async follow(first) {
    const view = this.last();
    if (!view || (!first && view.rest === "over") || (this.stream && !first)) return;
    this.stream?.abort();
    const stream = new AbortController();
    this.stream = stream;
    this.streamed = view;
    let pause = 250;
    let request = first;
    while (!stream.signal.aborted) {
      try {
        const response = request
          ? await request(stream.signal)
          : await ask(`api/runs/${encodeURIComponent(view.id)}/updates`, { signal: stream.signal, headers: view.position === "" ? {} : { "last-event-id": view.position } });
        request = view.id ? null : request;
        await readEvents(response, (data, id) => {
          if (stream.signal.aborted) return;
          pause = 250;
          if (this.isLost) { this.isLost = false; this.notice(""); }
          const update = readJson(data);
          view.apply(update);
          if (id !== undefined) view.position = id;
          request = view.id ? null : request;
          this.rest(view);
          if (update.update === "started") this.tell();
        });
        // The end of the stream is the end of the run, unless the service is restarted.
        if (view.rest === "over") break;
        if (view.id === null) throw new Error("no run has begun");
        const told = (await read(`api/conversations/${encodeURIComponent(this.conversation)}`)).runs.find((run) => run.run === view.id);
        if (!told || told.rest === "over") {
          // What it lacks comes with the updates.
          if (!told || told.position === view.position) { view.rest = "over"; view.footer(null); break; }
        }
      } catch (error) {
        if (stream.signal.aborted) return;
        if (error instanceof Refused && error.status !== 503) {
          view.refused(error.message, view.id === null && view.again ? view.again : null);
          if (view.id === null && view.restore) view.restore();
          break;
        }
        this.isLost = true;
        this.notice(error instanceof Refused ? error.message : "The connection is lost. The page tries again; the run goes on meanwhile.");
        pause = Math.max(pause, (error.wait ?? 0) * 1000);
      }
      await wait(pause);
      pause = Math.min(10_000, pause * 2);
    }
    if (this.stream === stream) {
      this.stream = null;
      this.streamed = null;
    }
    this.grown();
    this.tell();
    await this.list();
  },

  // Sets the state of a run after an update.
  rest(view) {
    if (view.rest === "over") return;
    view.rest = [...view.asked()].length > 0 ? "waiting" : "open";
  },

  // Tells the other tabs that something has changed.
  tell() {
    this.channel?.postMessage(this.conversation);
    clearTimeout(this.listing);
    this.listing = setTimeout(() => this.list(), 150);
  },

  // What the user does.

  async say(text, attachments) {
    if (this.isBusy() || (text.trim() === "" && attachments.length === 0)) return;
    const view = new RunView(this, null);
    view.sent = attachments;
    view.said(text, attachments);
    this.isAtEnd = true;
    this.runs.push(view);
    $("log").append(view.element);
    this.update();
    this.grown();
    const body = JSON.stringify({
      conversation: this.conversation, id: newId(), text,
      attachments: attachments.map(({ url, media_type }) => ({ url, media_type })),
    });
    const remove = () => {
      view.element.remove();
      this.runs = this.runs.filter((run) => run !== view);
    };
    view.again = () => { remove(); this.say(text, attachments); };
    // The same message twice is one, so it can be sent again over a connection that broke.
    await this.follow((signal) => post("api/messages", body, { signal }));
  },

  async decide(question, body) {
    try {
      await post(`api/runs/${encodeURIComponent(question.run)}/questions/${encodeURIComponent(question.question)}`, body);
      this.tell();
      if (!this.stream) await this.reload();
      return null;
    } catch (error) {
      return error instanceof Refused ? error.message : "The server cannot be reached; try again.";
    }
  },

  // After a decision, the next question has the focus, or the message of the user.
  focusAfterDecision(card) {
    if (card.question.contains(document.activeElement) || document.activeElement === document.body) {
      const next = [...card.run.asked()].find((other) => other !== card);
      (next?.question.querySelector("button") ?? $("text")).focus();
    }
  },

  async endRun(view) {
    try {
      await post(`api/runs/${encodeURIComponent(view.id)}/stop`);
      this.tell();
      if (!this.stream) await this.reload();
    } catch (error) { this.failed(error); }
  },

  async stop() {
    const view = this.last();
    if (!view || !this.isBusy() || this.isStopping) return;
    if (view.id === null) { this.notice("The run has not begun yet; try again."); return; }
    this.isStopping = true;
    $("stop").disabled = true;
    await this.endRun(view);
    $("stop").disabled = false;
    this.isStopping = false;
    $("text").focus();
  },

  async goOn(view) {
    view.rest = "open";
    view.stop?.remove();
    this.update();
    try {
      await post(`api/runs/${encodeURIComponent(view.id)}/go-on`);
      this.tell();
      this.follow();
    } catch (error) {
      view.stopped({ reason: error instanceof Refused ? error.message : "The server cannot be reached; try again.", can_go_on: true });
      this.update();
    }
    $("text").focus();
  },

  // Attachments.

  kindOf(type) {
    const kind = type.split("/")[0];
    return kind === "image" || kind === "audio" ? kind : "document";
  },

  async attach(files) {
    const takes = this.about?.takes ?? [];
    for (const file of files) {
      // A browser that does not know the kind may say so in this way.
      const type = file.type.replace("application/octet-stream", "") || (/\.(txt|md|csv|log|toml|rs|py|js|json|yaml|yml)$/i.test(file.name) ? "text/plain" : "");
      const total = this.attachments.reduce((sum, one) => sum + one.size, file.size);
      if (takes.length === 0) this.notice("This model takes no attachments.");
      else if (type === "") this.notice(`The kind of ${file.name} is not known, so it cannot be sent.`);
      else if (!takes.includes(this.kindOf(type))) this.notice(`This model takes no ${this.kindOf(type)}; it takes: ${takes.join(", ")}.`);
      else if (total > 11_000_000) this.notice("All attachments of a message may have 11 MB.");
      else {
        const url = await new Promise((done) => {
          const reader = new FileReader();
          reader.onload = () => done(String(reader.result).replace(/^data:[^;,]*/, `data:${type}`));
          reader.onerror = () => done(null);
          reader.readAsDataURL(file);
        });
        if (url === null) this.notice(`${file.name} cannot be read.`);
        else this.attachments.push({ name: file.name, size: file.size, url, media_type: type });
      }
    }
    this.showChips();
  },

  showChips() {
    const chips = $("chips");
    chips.hidden = this.attachments.length === 0;
    chips.replaceChildren(...this.attachments.map((one) => el("li", {},
      one.url.startsWith("data:image/") ? el("img", { src: one.url, alt: "" }) : null, textOf(one.name),
      el("button", { type: "button", class: "small", "aria-label": `Remove ${one.name}`, click: () => {
        this.attachments = this.attachments.filter((other) => other !== one);
        this.showChips();
        $("text").focus();
      } }, "×"))));
  },

  // Suggestions for an empty conversation.
  showEmpty() {
    const { only_task: task, tools } = this.about;
    const empty = $("empty");
    empty.replaceChildren();
    if (task) {
      empty.append(el("h2", {}, "Try the recorded task"),
        el("p", {}, "There is no model, so the replies come from a recording. The tools run live."),
        el("button", { type: "button", class: "suggestion", click: () => this.say(task, []) }, textOf(task)),
        el("p", { class: "faint" }, "For any other task, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or start Ollama, llama-server or LM Studio, and start the command again."));
    } else {
      empty.append(el("h2", {}, "What should the agent do?"), el("p", {}, tools.length === 0 ? "It has no tools." : `It has ${tools.length === 1 ? "one tool" : `${tools.length} tools`}:`));
      if (tools.length > 0) empty.append(el("ul", { class: "tools-list" }, ...tools.slice(0, 12).map((tool) => el("li", { title: tool.description }, textOf(tool.name))),
        tools.length > 12 ? el("li", { class: "faint" }, `and ${tools.length - 12} more`) : null));
    }
    $("about-text").replaceChildren(
      addText(el("p"), this.about.model), el("p", { class: "faint" }, "in ", textOf(this.about.folder)),
      el("h2", {}, "Tools"), tools.length === 0 ? el("p", {}, "none") : el("dl", {}, ...tools.flatMap((tool) => [el("dt", {}, textOf(tool.name)), addText(el("dd"), tool.description.slice(0, 300))])),
      el("p", { class: "faint" }, `Toolwright ${this.about.version}`, this.about.is_kept ? "" : ". No run is kept."));
    $("attach").hidden = this.about.takes.length === 0;
    const accepts = { image: "image/*", audio: "audio/*", document: "application/pdf,text/*" };
    $("file").setAttribute("accept", this.about.takes.map((kind) => accepts[kind]).join());
    $("others").hidden = !this.about.is_kept;
  },
};

const fit = () => {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight + 2, innerHeight * 0.4)}px`;
};

const submit = () => {
  const text = $("text").value;
  if (app.isBusy()) {
    app.notice([...app.last().asked()].length > 0 ? "Answer the question first, or stop the run." : "The run has not ended yet; wait for it, or stop it.");
    return;
  }
  const attachments = app.attachments;
  if (text.trim() === "" && attachments.length === 0) return;
  app.notice("");
  app.attachments = [];
  app.showChips();
  $("text").value = "";
  fit();
  app.say(text, attachments);
};

const menu = (isOpen) => {
  const isNarrow = matchMedia("(max-width: 760px)").matches;
  document.body.classList.toggle("menu", isOpen && isNarrow);
  $("menu").setAttribute("aria-expanded", String(isOpen && isNarrow));
  $("shade").hidden = !(isOpen && isNarrow);
  $("side").inert = isNarrow && !isOpen;
  $("main").inert = $("say").inert = isNarrow && isOpen;
};

$("say").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
$("text").addEventListener("input", fit);
$("text").addEventListener("keydown", (event) => {
  // While a word is composed, Enter ends the word.
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
    event.preventDefault();
    submit();
  }
});
$("text").addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (files.length > 0) { event.preventDefault(); app.attach(files); }
});
$("stop").addEventListener("click", () => app.stop());
$("new").addEventListener("click", () => { menu(false); app.begin(); $("text").focus(); });
$("menu").addEventListener("click", () => {
  const isOpen = $("menu").getAttribute("aria-expanded") === "true";
  menu(!isOpen);
  if (!isOpen) $("new").focus();
});
$("shade").addEventListener("click", () => menu(false));
$("list").addEventListener("click", (event) => { if (event.target.closest("a")) menu(false); });
$("attach").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => { app.attach([...$("file").files]); $("file").value = ""; $("text").focus(); });
$("others").addEventListener("toggle", () => { if ($("others").open) app.showOthers(); });
let topBefore = 0;
$("main").addEventListener("scroll", () => {
  const main = $("main");
  const isNear = main.scrollHeight - main.scrollTop - main.clientHeight < 60;
  // What grows above the end moves the end away; only a person scrolls up.
  if (isNear) app.isAtEnd = true;
  else if (main.scrollTop < topBefore - 2) app.isAtEnd = false;
  topBefore = main.scrollTop;
  $("down").hidden = isNear;
}, { passive: true });
new ResizeObserver(() => app.grown()).observe($("log"));
$("down").addEventListener("click", () => { app.isAtEnd = true; $("main").scrollTop = $("main").scrollHeight; $("text").focus(); });
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
  if (document.body.classList.contains("menu")) { menu(false); $("menu").focus(); }
  else if ($("about").open) { $("about").open = false; $("about").firstElementChild.focus(); }
  else app.stop();
});
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("drop"); });
addEventListener("dragleave", (event) => { if (event.relatedTarget === null) document.body.classList.remove("drop"); });
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("drop");
  if (event.dataTransfer.files.length > 0) app.attach([...event.dataTransfer.files]);
});
addEventListener("resize", () => menu(false));
addEventListener("click", (event) => { if ($("about").open && !event.target.closest("#about")) $("about").open = false; });

const route = () => {
  const found = /^#c=(.{1,600})$/.exec(location.hash);
  if (!found) { history.replaceState(null, "", `${location.pathname}#c=${newId()}`); route(); return; }
  const id = decodeURIComponentSafely(found[1]);
  if (id !== app.conversation) app.open(id);
};
addEventListener("hashchange", route);

// Other tabs say when something has changed; the list also says what other machines do.
app.channel?.addEventListener("message", () => app.list());
const look = async () => {
  while (true) {
    await wait(4000);
    if (!document.hidden) await app.list();
  }
};
// A browser has six connections for a server. A page that nobody sees gives its one back.
let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => { if (app.last()?.id) app.close(); }, 20_000);
  else {
    app.list();
    if (!app.stream) app.follow();
  }
});

const start = async () => {
  // The token must not stay in the address.
  if (location.search.includes("token=")) history.replaceState(null, "", location.pathname + location.hash);
  menu(false);
  // On a phone this would open the keyboard.
  if (!matchMedia("(pointer: coarse)").matches) $("text").focus();
  try {
    app.about = await read("about");
    app.showEmpty();
  } catch (error) { app.failed(error); }
  route();
  await app.list();
  look();
};
start();
