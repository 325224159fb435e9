// One run: what the user said, what the agent wrote and did, and how it ended.

const number = (value) => Number(value).toLocaleString("en");

const timeOf = (milliseconds) => milliseconds < 1 ? "under 1 ms" : milliseconds < 1000 ? `${milliseconds} ms`
  : milliseconds < 60_000 ? `${(milliseconds / 1000).toFixed(1)} s` : `${Math.floor(milliseconds / 60_000)} min ${Math.round(milliseconds % 60_000 / 1000)} s`;

const costOf = (cost) => {
  if (!cost) return "";
  const cached = cost.cached_tokens ? ` (${number(cost.cached_tokens)} cached)` : "";
  const tokens = `${number(cost.input_tokens)} tokens in${cached}, ${number(cost.output_tokens)} out`;
  return cost.money ? `${tokens}, ${cost.money}` : tokens;
};

const ENDINGS = {
  limit_reached: "The run reached a limit, so the answer may be incomplete.",
  cut_off: "The model reached the maximum length of a reply, so the answer is cut off.",
  refused: "The model refused the task.",
  stuck: "The model repeated the same mistake too often.",
  unclear: "The model stopped for a reason that is not known.",
};

const EFFECTS = {
  read: "It only reads.",
  idempotent: "It changes something. Made again, it changes nothing more.",
  write: "It changes something.",
  irreversible: "It cannot be undone.",
};

// A call of a tool.
class Card {
  constructor(run, name) {
    this.run = run;
    this.name = name;
    this.arguments = "";
    this.stateText = el("span", { class: "state" });
    this.title = el("h3", {}, textOf(name || "…"));
    this.args = el("div", { class: "args" });
    this.question = el("div");
    this.verdict = el("div");
    this.inner = el("div", { class: "inner" });
    this.work = el("details", { class: "work", hidden: true }, el("summary", {}, "What this agent did"), this.inner);
    this.result = el("div", { class: "result" });
    this.element = el("section", { class: "call", "aria-label": `Call of ${name || "a tool"}` },
      el("div", { class: "head" }, this.title, this.stateText), this.args, this.verdict, this.question, this.work, this.result);
    this.set("writing", "being written");
  }

  set(state, text) {
    this.element.dataset.state = state;
    this.stateText.textContent = text;
  }

  // Arguments that are being written.
  write(name, at, text) {
    if (name && name !== this.name) {
      this.name = name;
      this.title.replaceChildren(textOf(name));
      this.element.setAttribute("aria-label", `Call of ${name}`);
    }
    if (at === 0) this.arguments = "";
    this.arguments += text;
    if (this.timer === undefined) this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.element.dataset.state !== "writing") return;
      const long = this.arguments.length > 600;
      this.args.replaceChildren(addText(el("pre"), long ? `…${this.arguments.slice(-600)}` : this.arguments));
    }, 60);
  }

  made(name, text) {
    this.write(name, 0, text);
    this.args.replaceChildren(folded(indented(text) ?? text, "the arguments"));
    this.args.hidden = text.trim() === "" || text.trim() === "{}";
    this.set("pending", "running");
  }

  done(update) {
    this.question.replaceChildren();
    if (update.failed) this.set("failed", `failed after ${timeOf(update.milliseconds)}`);
    else this.set("done", `done in ${timeOf(update.milliseconds)}`);
    const text = update.text;
    const whole = text.length < 50_000 ? indented(text) : null;
    this.result.replaceChildren(el("h4", {}, update.failed ? "Error" : "Result"));
    if (text === "") this.result.append(el("p", { class: "faint" }, "an empty text"));
    else this.result.append(folded(/^\s*[{[]/.test(text) && whole ? whole : text, update.failed ? "the error" : "the result"));
    if (update.whole_bytes) this.result.append(el("p", { class: "faint" },
      `This is the beginning of a result of ${number(update.whole_bytes)} bytes.`));
  }

  ask(question) {
    if (!this.arguments) this.made(question.name, question.arguments);
    this.set("waiting", "waits for you");
    this.asked = question;
    this.question.replaceChildren(questionForm(this, question));
    this.element.dataset.question = question.question;
  }

  // The run has ended before the call.
  end() {
    this.question.replaceChildren();
    delete this.element.dataset.question;
    this.asked = null;
    this.set("stopped", "stopped");
  }

  decided({ decision, by }) {
    this.question.replaceChildren();
    delete this.element.dataset.question;
    this.asked = null;
    const who = by ? [" by ", textOf(by)] : [];
    const line = (...texts) => el("p", {}, ...texts);
    const [kind, value] = typeof decision === "string" ? [decision, null] : Object.entries(decision)[0];
    const box = el("div", { class: "verdict" });
    if (kind === "deny") {
      this.set("denied", "denied");
      box.append(line("Denied", ...who, ": ", textOf(value.reason || "no reason")));
    } else if (kind === "edit") {
      this.set("pending", "running");
      box.append(line("Approved with other arguments", ...who, ":"), folded(JSON.stringify(value.arguments, null, 2), "the arguments"));
    } else if (kind === "happened") {
      this.set("pending", "has happened");
      box.append(line("It has happened, say", ...who, ", with this result:"), folded(value.result, "the result"));
    } else {
      this.set("pending", "running");
      box.append(line(kind === "call_again" ? "Made again" : "Approved", ...who));
    }
    this.verdict.replaceChildren(box);
  }
}

// The question whether a call may be made.
const questionForm = (card, question) => {
  const form = el("div", { class: "question", role: "group", "aria-label": `May ${question.name} be called?` });
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const fail = (text) => { fault.textContent = text; fault.hidden = text === ""; };
  const buttons = el("div", { class: "buttons" });
  const sheet = el("div");
  let isSent = false;
  const send = async (body) => {
    if (isSent) return;
    isSent = true;
    fail("");
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    const problem = await card.run.app.decide(question, body);
    if (problem === null) {
      card.set("pending", "decided");
      card.run.app.focusAfterDecision(card);
      return;
    }
    isSent = false;
    for (const button of form.querySelectorAll("button")) button.disabled = false;
    fail(problem);
  };
  const button = (text, kind, act) => el("button", { type: "button", class: kind, click: act }, text);
  const back = () => { sheet.replaceChildren(); buttons.hidden = false; fail(""); buttons.querySelector("button").focus(); };
  const onEscape = (event) => { if (event.key === "Escape") { event.stopPropagation(); back(); } };
  // A sheet with one text to write. Its value is checked while it is written.
  const write = (label, value, rows, check, doneText, done) => {
    buttons.hidden = true;
    const id = `write-${question.question}`;
    const area = el("textarea", { id, rows, spellcheck: "false", "aria-describedby": `${id}-fault` });
    area.value = value;
    const wrong = el("p", { class: "fault", id: `${id}-fault`, "aria-live": "polite" });
    const go = button(doneText, "primary", () => done(area.value));
    area.addEventListener("input", () => {
      const problem = check(area.value);
      wrong.textContent = problem;
      go.disabled = problem !== "";
      if (problem === "") area.removeAttribute("aria-invalid"); else area.setAttribute("aria-invalid", "true");
    });
    area.addEventListener("keydown", onEscape);
    sheet.replaceChildren(el("label", { for: id }, label), area, wrong, el("div", { class: "buttons" }, go, button("Back", "", back)));
    area.focus();
  };
  const checkJson = (text) => {
    try { JSON.parse(text); } catch (error) { return `This is not JSON: ${error.message}`; }
    return "";
  };
  const deny = () => write("Reason, which the model reads", "", 2, () => "", "Deny",
    (reason) => send(JSON.stringify({ deny: { reason: reason.trim() || "The user did not allow this call." } })));
  const edit = () => write("Arguments as JSON", indented(question.arguments) ?? question.arguments,
    Math.min(14, (indented(question.arguments) ?? "").split("\n").length + 1), checkJson, "Approve with these arguments",
    // The text itself: reading and writing it would round large numbers.
    (text) => send(`{"edit":{"arguments":${text}}}`));
  const happened = () => write("The result, which the model reads", "", 3, () => "", "It has happened",
    (result) => send(JSON.stringify({ happened: { result } })));
  const facts = [];
  if (question.unknown) facts.push(el("p", { class: "warn" }, "This call was begun before, and nobody knows whether it has happened. Look before you decide."));
  else facts.push(el("p", {}, "May this call be made? ", el("strong", {}, EFFECTS[question.effect] ?? question.effect)));
  if (question.reason) facts.push(addText(el("p"), question.reason));
  if (question.unknown) buttons.append(button("Call again", "primary", () => send('"call_again"')), button("It has happened…", "", happened));
  else buttons.append(button("Approve", "primary", () => send('"approve"')), button("Edit…", "", edit));
  buttons.append(button("Deny…", "danger", deny));
  form.append(...facts, buttons, sheet, fault);
  return form;
};

class RunView {
  constructor(app, id) {
    this.app = app;
    this.id = id;
    this.position = "";
    this.rest = "open";
    this.agents = new Map();
    this.user = el("div", { class: "user", role: "group", "aria-label": "You" });
    this.body = el("div", { class: "agent", role: "group", "aria-label": "Agent" });
    this.busy = el("p", { class: "busy" }, el("span", { class: "dots", "aria-hidden": "true" }, "●●●"), el("span", { class: "sr" }, "The agent works"));
    this.foot = el("p", { class: "foot" });
    this.heading = el("h2", { class: "sr" }, "Message");
    this.element = el("article", { class: "turn" }, this.heading, this.user, this.body, this.busy, this.foot);
    // Whether what happens is read aloud.
    this.isQuiet = false;
    this.spoken = 0;
    this.lastText = "";
  }

  // What the user said, before the server has it.
  said(text, attachments) {
    this.user.replaceChildren();
    this.heading.textContent = `Message: ${text.slice(0, 80)}`;
    if (text !== "") this.user.append(addText(el("div", { class: "said" }), text, true));
    if (attachments.length > 0) this.user.append(el("ul", { class: "chips", "aria-label": "Attachments" },
      ...attachments.map((one) => el("li", {}, one.url?.startsWith("data:image/") ? el("img", { src: one.url, alt: "" }) : null,
        textOf(one.name ?? one.media_type ?? one.kind)))));
  }

  speak(text) {
    if (!this.isQuiet) this.app.speak(text);
  }

  agent(path) {
    const key = JSON.stringify(path);
    let agent = this.agents.get(key);
    if (!agent) {
      let box = this.body;
      if (path.length > 0) {
        const last = path.at(-1);
        const card = this.card(path.slice(0, -1), last.id, last.tool);
        card.work.hidden = false;
        box = card.inner;
      }
      agent = { box, cards: new Map(), block: null, open: [], drafts: new Map() };
      this.agents.set(key, agent);
    }
    return agent;
  }

  card(path, id, name) {
    const agent = this.agent(path);
    let card = agent.cards.get(id);
    if (!card) {
      card = new Card(this, name);
      agent.cards.set(id, card);
      agent.box.append(card.element);
    }
    return card;
  }

  // Returns the text or reasoning at the end of an agent.
  block(agent, kind) {
    if (agent.block?.kind === kind) return agent.block;
    this.endBlock(agent);
    const streamed = new Streamed();
    streamed.shown = () => this.app.grown();
    const element = kind === "text" ? streamed.element
      : el("details", { class: "reasoning" }, el("summary", {}, "Reasoning"), streamed.element);
    agent.block = { kind, streamed, element };
    agent.open.push(element);
    agent.box.append(element);
    return agent.block;
  }

  endBlock(agent) {
    agent.block?.streamed.end();
    agent.block = null;
  }

  draft(agent, place, name) {
    let card = agent.drafts.get(place);
    if (!card) {
      this.endBlock(agent);
      card = new Card(this, name);
      agent.drafts.set(place, card);
      agent.open.push(card.element);
      agent.box.append(card.element);
    }
    return card;
  }

  apply(update) {
    const path = update.path ?? [];
    const isTop = path.length === 0;
    const agent = this.agent(path);
    this.drop(agent, update.update);
    switch (update.update) {
      case "started":
        this.id = update.run;
        this.said(update.text, (update.attachments ?? []).map((one, at) => ({ ...one, ...this.sent?.[at] })));
        break;
      case "text":
        this.block(agent, "text").streamed.add(update.text);
        if (isTop) {
          this.lastText += update.text;
          this.speakSentences(false);
        }
        break;
      case "reasoning":
        this.block(agent, "reasoning").streamed.add(update.text);
        break;
      case "answer": {
        if (!agent.answer) {
          this.endBlock(agent);
          agent.answer = { text: "", pre: addText(el("pre", { class: "answer", tabindex: "0" }), "") };
          agent.open.push(agent.answer.pre);
          agent.box.append(agent.answer.pre);
        }
        if (update.at === 0) agent.answer.text = "";
        agent.answer.text += update.text;
        agent.answer.pre.replaceChildren();
        addText(agent.answer.pre, agent.answer.text);
        break;
      }
      case "call_text":
        this.draft(agent, update.place, update.name).write(update.name, update.at, update.arguments);
        break;
      case "discarded":
        this.endBlock(agent);
        agent.answer = null;
        agent.lost = agent.open;
        for (const element of agent.lost) element.classList.add("lost");
        agent.open = [];
        agent.drafts.clear();
        if (isTop) { this.lastText = ""; this.spoken = 0; }
        break;
      case "called": {
        const card = this.draft(agent, update.place, update.name);
        agent.drafts.delete(update.place);
        agent.cards.set(update.id, card);
        card.made(update.name, update.arguments);
        if (isTop) { this.speakSentences(true); this.lastText = ""; this.spoken = 0; }
        this.speak(`Calls ${update.name}.`);
        break;
      }
      case "replied":
        this.endBlock(agent);
        agent.answer = null;
        agent.open = [];
        for (const card of agent.drafts.values()) card.element.remove();
        agent.drafts.clear();
        if (isTop) this.model = update.model ?? this.model;
        break;
      case "approval_asked": {
        const card = this.card(path, update.id, update.name);
        card.ask(update);
        for (let parent = card.element.parentElement.closest("details"); parent; parent = parent.parentElement.closest("details")) parent.open = true;
        this.speak(`The call of ${update.name} waits for your approval.`);
        break;
      }
      case "decided":
        agent.cards.get(update.id)?.decided(update);
        break;
      case "result":
        this.card(path, update.id, update.name).done(update);
        this.speak(update.failed ? `${update.name} has failed.` : `${update.name} is done.`);
        break;
      case "compacted":
        agent.box.append(el("p", { class: "note" }, `The conversation was shortened from ${number(update.tokens_before)} to ${number(update.tokens_after)} tokens.`));
        break;
      case "done":
        this.done(update);
        break;
      case "stopped":
        this.stopped(update);
        break;
    }
    // A kind that this page does not know is left out.
    if (update.update !== "stopped") { this.stop?.remove(); this.stop = null; }
    this.app.grown();
  }

  // Removes what was written of a reply that is lost, when another one begins. If the run stops instead,
  // a person may still read it.
  drop(agent, kind) {
    if (!agent.lost || kind === "discarded") return;
    const isKept = kind === "stopped" && agent.lost.length > 0;
    if (isKept) agent.lost.at(-1).after(el("p", { class: "note" }, "This reply is not whole. The model will not know it."));
    else for (const element of agent.lost) element.remove();
    agent.lost = null;
  }

  // Reads whole sentences aloud.
  speakSentences(isAll) {
    const text = this.lastText;
    const rest = text.slice(this.spoken);
    const end = isAll ? rest.length : Math.max(rest.lastIndexOf(". "), rest.lastIndexOf("\n"), rest.lastIndexOf("! "), rest.lastIndexOf("? ")) + 1;
    if (end <= 0) return;
    this.spoken += end;
    this.speak(rest.slice(0, Math.min(end, 2000)));
  }

  done(update) {
    const agent = this.agent([]);
    this.endBlock(agent);
    this.rest = "over";
    const { answer, ending } = update;
    if (typeof answer !== "string") {
      if (answer !== null) agent.box.append(codeBlock(JSON.stringify(answer, null, 2), "json"));
    } else if (answer.trim() !== "" && this.lastText.trim() !== answer.trim()) {
      agent.box.append(markdown(el("div", { class: "prose" }), answer));
    }
    this.speakSentences(true);
    if (ENDINGS[ending]) agent.box.append(el("p", { class: "note warn" }, ENDINGS[ending]));
    this.footer(update.cost);
    this.speak(ENDINGS[ending] ?? "The answer is complete.");
  }

  stopped(update) {
    for (const agent of this.agents.values()) {
      this.endBlock(agent);
      for (const card of agent.cards.values()) if (["pending", "waiting"].includes(card.element.dataset.state) && (!card.asked || !update.can_go_on)) card.end();
      for (const card of agent.drafts.values()) card.element.remove();
      agent.drafts.clear();
    }
    this.rest = "over";
    this.stop?.remove();
    const reason = update.by_person ? "The run was stopped." : update.reason;
    this.stop = el("div", { class: update.can_go_on ? "stopped error" : "stopped" }, addText(el("p"), reason, true));
    if (update.can_go_on) this.stop.append(el("div", { class: "buttons" },
      el("button", { type: "button", class: "primary", click: () => this.app.goOn(this) }, "Go on"),
      el("button", { type: "button", click: () => this.app.endRun(this) }, "End this run")));
    this.body.append(this.stop);
    this.footer(null);
    this.speak(update.can_go_on ? `The run stopped at an error: ${reason.slice(0, 300)}` : "The run was stopped.");
  }

  // An error of a request that the server refused.
  refused(text, again) {
    this.stop?.remove();
    this.rest = "over";
    this.stop = el("div", { class: "stopped error" }, addText(el("p"), text, true));
    if (again) this.stop.append(el("div", { class: "buttons" }, el("button", { type: "button", class: "primary", click: again }, "Send again")));
    this.body.append(this.stop);
    this.speak(`Error: ${text}`);
  }

  footer(cost) {
    const parts = [];
    if (this.model) parts.push(textOf(this.model));
    if (cost) parts.push(costOf(cost));
    if (this.app.about?.is_kept && this.id) parts.push(el("a", { href: `runs/${encodeURIComponent(this.id)}/page`, target: "_blank", rel: "noopener" }, "Page of this run"));
    this.foot.replaceChildren();
    parts.forEach((part, at) => this.foot.append(at > 0 ? " · " : "", part));
  }

  // The cards that wait for a person.
  *asked() {
    for (const agent of this.agents.values()) for (const card of agent.cards.values()) if (card.asked) yield card;
  }
}
