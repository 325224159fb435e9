"use strict";
// Texts of models, tools and strangers as elements. Everything is a text node: nothing that somebody
// wrote becomes HTML, and only these functions choose elements.

// Returns an element with attributes and children. Texts become text nodes.
const el = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

// The characters that nobody sees, or that change the order of others, as the command shows them. Signs
// that make emoji and letters of some languages stay in prose.
const HIDDEN = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB]|\uDB40[\uDC00-\uDFFF]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
const IN_PROSE = new Set(["\u200C", "\u200D", "\uFE0E", "\uFE0F"]);

const mark = (char) => {
  const code = char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return el("span", { class: "mark", title: "A character that cannot be seen" }, `U+${code}`);
};

// Adds a text to an element, with hidden characters as marks.
const addText = (to, text, isProse = false) => {
  let from = 0;
  // A text may have millions of them.
  let left = 2000;
  for (const found of text.matchAll(HIDDEN)) {
    if (isProse && IN_PROSE.has(found[0])) continue;
    if (found[0] === "\r" && text[found.index + 1] === "\n") continue;
    if (left === 0) {
      to.append(el("span", { class: "mark" }, "the rest is not shown: too many hidden characters"));
      return to;
    }
    left -= 1;
    if (found.index > from) to.append(text.slice(from, found.index));
    to.append(mark(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) to.append(from === 0 ? text : text.slice(from));
  return to;
};

// The same for a text in one line, such as the name of a tool.
const textOf = (text) => addText(el("span"), text);

const copied = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over http from another machine there is no clipboard.
    const area = el("textarea", { class: "sr", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
};

const copyButton = (text) => {
  const button = el("button", { type: "button", class: "small copy", click: async () => {
    button.textContent = (await copied(text())) ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return button;
};

// Returns JSON with one value in each line, or null if the text is not JSON. The values stay as they are
// written: a number with twenty digits is not rounded, and a name that is there twice is there twice.
const indented = (text) => {
  try { JSON.parse(text); } catch { return null; }
  let out = "", depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, 40))}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/gs)) {
    if (token === "{" || token === "[") {
      depth += 1;
      out += token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const isEmpty = /[{[]\s*$/.test(out.slice(-90));
      out = isEmpty ? out.trimEnd() + token : out + line() + token;
    } else if (token === ",") out += token + line();
    else out += token === ":" ? ": " : token;
  }
  return out;
};

// Returns a text that keeps its lines. A long one is folded.
const FOLD_LINES = 10, FOLD_CHARS = 900;
const folded = (text, what) => {
  const box = el("div", { class: "folded" });
  let end = Math.min(text.length, FOLD_CHARS);
  let at = -1;
  for (let line = 0; line < FOLD_LINES; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) break;
    if (line === FOLD_LINES - 1) end = Math.min(end, at);
  }
  const isLong = text.length > end + 80;
  const pre = el("pre", { tabindex: "0" });
  addText(pre, isLong ? `${text.slice(0, end)}…` : text);
  box.append(pre);
  if (isLong) {
    const more = el("button", { type: "button", class: "small", "aria-expanded": "false", click: () => {
      const isOpen = more.getAttribute("aria-expanded") === "true";
      pre.replaceChildren();
      addText(pre, isOpen ? `${text.slice(0, end)}…` : text);
      more.setAttribute("aria-expanded", String(!isOpen));
      more.textContent = isOpen ? label : `Show less of ${what}`;
    } });
    const label = `Show all of ${what} (${text.length.toLocaleString("en")} characters)`;
    more.textContent = label;
    box.append(el("div", { class: "tools" }, more, copyButton(() => text)));
  }
  return box;
};

// Markdown: headings, paragraphs, lists, quotes, code, tables, emphasis and links. It has no HTML and
// loads no image. Every step is linear in the length of the text.
const DEEPEST = 6, LONGEST = 100_000, MOST_LINES = 4_000;

const linkTo = (url) => {
  let parsed;
  try { parsed = new URL(url); } catch { return null; }
  return ["http:", "https:", "mailto:"].includes(parsed.protocol) ? parsed : null;
};

// Returns a link that names its host, unless its own text does.
const linkWith = (url, fill, label) => {
  const link = el("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" });
  fill(link);
  const host = url.protocol === "mailto:" ? decodeURIComponentSafely(url.pathname) : url.host;
  if (!label.includes(host)) link.append(el("span", { class: "host" }, ` (${host})`));
  return link;
};

const decodeURIComponentSafely = (text) => {
  try { return decodeURIComponent(text); } catch { return text; }
};

const WORD = /[\p{L}\p{N}]/u;

const inline = (to, text, depth = 0, hasLinks = true) => {
  if (text.length > 20_000 || depth > DEEPEST) return addText(to, text, true);
  const none = new Map(), next = new Map();
  // Where a character is next. Each is looked for only once.
  const find = (what, from) => {
    const known = next.get(what);
    if (known !== undefined && (known < 0 || known >= from)) return known;
    const at = text.indexOf(what, from);
    next.set(what, at);
    return at;
  };
  let plain = "", i = 0;
  const flush = () => { if (plain !== "") addText(to, plain, true); plain = ""; };
  while (i < text.length) {
    const char = text[i];
    if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "")) {
      plain += text[i + 1];
      i += 2;
      continue;
    }
    if (char === "`") {
      let run = i;
      while (text[run] === "`") run += 1;
      const ticks = text.slice(i, run);
      let end = none.get(ticks) ? -1 : text.indexOf(ticks, run);
      while (end >= 0 && (text[end + ticks.length] === "`" || text[end - 1] === "`")) {
        while (text[end] === "`") end += 1;
        end = text.indexOf(ticks, end);
      }
      if (end < 0) {
        none.set(ticks, true);
        plain += ticks;
        i = run;
        continue;
      }
      flush();
      let code = text.slice(run, end).replace(/\n/g, " ");
      if (/^ .*[^ ].* $/s.test(code)) code = code.slice(1, -1);
      to.append(addText(el("code"), code));
      i = end + ticks.length;
      continue;
    }
    if (hasLinks && (char === "[" || (char === "!" && text[i + 1] === "["))) {
      const open = char === "!" ? i + 1 : i;
      const close = find("]", open + 1);
      const isInner = close > 0 && find("[", open + 1) >= 0 && find("[", open + 1) < close;
      const end = close > 0 && !isInner && text[close + 1] === "(" ? find(")", close + 2) : -1;
      if (end > 0) {
        const label = text.slice(open + 1, close);
        // Parentheses in a URL may be paired.
        let to2 = end;
        while (text.slice(close + 2, to2).split("(").length > text.slice(close + 2, to2 + 1).split(")").length
          && text.indexOf(")", to2 + 1) > 0 && text.indexOf(")", to2 + 1) - close < 2000) to2 = text.indexOf(")", to2 + 1);
        const target = text.slice(close + 2, to2).trim().replace(/\s+["'(].*$/s, "").replace(/^<(.*)>$/, "$1");
        const url = target.length < 2000 ? linkTo(target) : null;
        if (url) {
          flush();
          to.append(linkWith(url, (link) => inline(link, label === "" ? target : label, depth + 1, false), label));
          i = to2 + 1;
          continue;
        }
      }
      plain += char;
      i += 1;
      continue;
    }
    if (hasLinks && (char === "<" || ((char === "h" || char === "H") && !WORD.test(text[i - 1] ?? "")))) {
      const pattern = char === "<" ? /<(https?:\/\/[^\s<>]{1,2000})>/iy : /(https?:\/\/[^\s<>"'`\]]{1,2000})/iy;
      pattern.lastIndex = i;
      const found = pattern.exec(text);
      let address = found?.[1];
      if (address && char !== "<") {
        address = address.replace(/[.,;:!?*_~]+$/, "");
        if (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
      }
      const url = address ? linkTo(address) : null;
      if (url) {
        flush();
        to.append(linkWith(url, (link) => addText(link, address), address));
        i += char === "<" ? found[0].length : address.length;
        continue;
      }
    }
    if (char === "*" || char === "_" || char === "~") {
      const double = text[i + 1] === char;
      const mark = double ? char + char : char;
      const after = text[i + mark.length] ?? " ";
      const isOpen = !/\s/.test(after) && after !== char && (char === "*" || !WORD.test(text[i - 1] ?? " "));
      if (isOpen && !none.get(mark) && !(char === "~" && !double)) {
        let end = text.indexOf(mark, i + mark.length + 1);
        const isClose = (at) => !/\s/.test(text[at - 1])
          && (char === "*" || !WORD.test(text[at + mark.length] ?? " "))
          && (double || (text[at + 1] !== char && text[at - 1] !== char));
        while (end >= 0 && !isClose(end)) end = text.indexOf(mark, end + 1);
        if (end >= 0) {
          flush();
          const inner = text.slice(i + mark.length, end);
          const name = char === "~" ? "del" : double ? "strong" : "em";
          to.append(inline(el(name), inner, depth + 1, hasLinks));
          i = end + mark.length;
          continue;
        }
        none.set(mark, true);
      }
      plain += mark;
      i += mark.length;
      continue;
    }
    if (char === "\n") {
      // Two spaces at the end of a line begin a new one.
      const isBreak = plain.endsWith("  ");
      plain = plain.trimEnd();
      flush();
      to.append(isBreak ? el("br") : "\n");
      i += 1;
      continue;
    }
    plain += char;
    i += 1;
  }
  flush();
  return to;
};

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]{0,40})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s{0,20})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/s;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

const cells = (line) => {
  const found = [];
  let cell = "";
  const row = line.trim().replace(/^\|/, "");
  for (let i = 0; i < row.length; i += 1) {
    if (row[i] === "\\" && row[i + 1] === "|") { cell += "|"; i += 1; }
    else if (row[i] === "|") { found.push(cell.trim()); cell = ""; }
    else cell += row[i];
  }
  if (cell.trim() !== "") found.push(cell.trim());
  return found;
};

const codeBlock = (code, language) => el("figure", { class: "code" },
  el("figcaption", {}, textOf(language || "text"), copyButton(() => code)),
  el("pre", { tabindex: "0" }, addText(el("code"), code)));

const table = (lines, from) => {
  const head = cells(lines[from]);
  const sides = cells(lines[from + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : ""));
  const row = (name, texts) => el("tr", {}, ...head.map((_, at) => inline(el(name, { class: sides[at] || undefined, scope: name === "th" ? "col" : undefined }), texts[at] ?? "")));
  const body = el("tbody");
  let at = from + 2;
  for (; at < lines.length && lines[at].includes("|") && lines[at].trim() !== ""; at += 1) body.append(row("td", cells(lines[at])));
  const made = el("table", {}, el("thead", {}, row("th", head)), body);
  return [el("div", { class: "wide", tabindex: "0" }, made), at];
};

// Returns the list that begins at a line, and the line after it.
const list = (lines, from, depth) => {
  const [, indent, sign] = ITEM.exec(lines[from]);
  const isOrdered = /\d/.test(sign);
  const made = isOrdered ? el("ol", { start: parseInt(sign, 10) }) : el("ul");
  const kind = sign.at(-1);
  let at = from;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!item || item[1].length > indent.length + 1 || item[1].length < indent.length || item[2].at(-1) !== kind || RULE.test(lines[at])) break;
    const width = item[1].length + item[2].length + Math.max(1, Math.min(item[3].length, 4));
    const inner = [item[4]];
    let isLoose = false;
    for (at += 1; at < lines.length; at += 1) {
      const line = lines[at];
      if (line.trim() === "") {
        const after = lines[at + 1] ?? "";
        if (after.trim() !== "" && /^\s*/.exec(after)[0].length >= Math.min(width, indent.length + 2)) { inner.push(""); isLoose = true; continue; }
        break;
      }
      const space = /^\s*/.exec(line)[0].length;
      if (space >= Math.min(width, indent.length + 2)) inner.push(line.slice(Math.min(space, width)));
      else if (ITEM.test(line) || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line)) break;
      else inner.push(line);
    }
    const one = el("li");
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) {
      one.className = "task";
      one.append(el("span", { role: "img", "aria-label": task[1] === " " ? "not done" : "done" }, task[1] === " " ? "☐ " : "☑ "));
      inner[0] = inner[0].slice(task[0].length);
    }
    blocks(one, inner, depth + 1, !isLoose);
    made.append(one);
    // A blank line between items.
    if (lines[at]?.trim() === "" && ITEM.test(lines[at + 1] ?? "")) at += 1;
  }
  return [made, at];
};

const blocks = (to, lines, depth = 0, isTight = false) => {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === "") { at += 1; continue; }
    if (depth > DEEPEST) {
      to.append(addText(el("p", { class: "plain" }), lines.slice(at).join("\n"), true));
      return;
    }
    const fence = FENCE.exec(line);
    if (fence) {
      const code = [];
      const isEnd = (line) => line.trim().startsWith(fence[1]) && line.trim().replaceAll(fence[1][0], "") === "";
      for (at += 1; at < lines.length && !isEnd(lines[at]); at += 1) code.push(lines[at]);
      at += 1;
      to.append(codeBlock(code.join("\n"), fence[2]));
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      // The page and its messages have the first two levels.
      to.append(inline(el(`h${Math.min(6, heading[1].length + 2)}`, { class: `h${heading[1].length}` }), heading[2] ?? ""));
      at += 1;
      continue;
    }
    if (RULE.test(line)) { to.append(el("hr")); at += 1; continue; }
    if (QUOTE.test(line)) {
      const inner = [];
      for (; at < lines.length && QUOTE.test(lines[at]); at += 1) inner.push(lines[at].replace(QUOTE, ""));
      const quote = el("blockquote");
      blocks(quote, inner, depth + 1);
      to.append(quote);
      continue;
    }
    if (ITEM.test(line)) {
      const [made, after] = list(lines, at, depth);
      to.append(made);
      at = after;
      continue;
    }
    if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && lines[at + 1].includes("-") && cells(lines[at + 1]).length === cells(line).length) {
      const [made, after] = table(lines, at);
      to.append(made);
      at = after;
      continue;
    }
    const text = [];
    for (; at < lines.length && lines[at].trim() !== ""; at += 1) {
      const next = lines[at];
      if (text.length > 0 && (FENCE.test(next) || HEADING.test(next) || QUOTE.test(next) || RULE.test(next) || /^\s{0,3}(?:[-*+]|1[.)])\s/.test(next))) break;
      text.push(next.trimStart());
    }
    if (isTight) {
      inline(to, text.join("\n"));
      if (at < lines.length) to.append("\n");
    } else to.append(inline(el("p"), text.join("\n")));
  }
};

// Adds a text in markdown to an element.
const markdown = (to, text) => {
  const lines = text.slice(0, LONGEST).split(/\r?\n/);
  let rest = text.slice(LONGEST);
  if (lines.length > MOST_LINES) rest = `${lines.splice(MOST_LINES).join("\n")}${rest}`;
  blocks(to, lines);
  if (rest !== "") to.append(folded(rest, "the rest"));
  return to;
};

// A text in markdown that is being written. Only the block at its end is made again.
class Streamed {
  constructor() {
    this.element = el("div", { class: "prose" });
    this.tail = el("div", { class: "tail" });
    this.element.append(this.tail);
    this.text = "";
    // Where the block at the end begins, and whether it is a fence.
    this.from = 0;
    this.scanned = 0;
    this.fence = null;
    this.timer = null;
    this.took = 0;
  }

  add(text) {
    this.text += text;
    // A text that takes long to show is shown less often.
    if (this.timer === null) this.timer = setTimeout(() => this.show(), Math.min(1500, 30 + this.took * 8));
  }

  // Moves blocks that are whole out of the tail.
  settle() {
    let end = this.from;
    while (true) {
      const at = this.text.indexOf("\n", this.scanned);
      if (at < 0) break;
      const line = this.text.slice(this.scanned, at);
      const fence = FENCE.exec(line);
      if (this.fence === null && fence) this.fence = fence[1];
      else if (this.fence !== null && line.trim().startsWith(this.fence) && line.trim().replaceAll(this.fence[0], "") === "") this.fence = null;
      else if (this.fence === null && line.trim() === "") {
        // What follows with a space may belong to a list.
        const after = this.text[at + 1];
        if (after !== undefined && !/[\s\d*+-]/.test(after)) end = at + 1;
      }
      this.scanned = at + 1;
    }
    if (end === this.from || this.from >= LONGEST) return;
    const done = el("div");
    markdown(done, this.text.slice(this.from, end));
    this.tail.before(...done.childNodes);
    this.from = end;
  }

  show() {
    this.timer = null;
    const start = performance.now();
    this.settle();
    const tail = el("div", { class: "tail" });
    const rest = this.text.slice(this.from);
    if (rest.length > LONGEST) addText(tail, `${rest.slice(0, 2000)}…`);
    else markdown(tail, rest);
    this.tail.replaceWith(tail);
    this.tail = tail;
    this.took = performance.now() - start;
    this.shown?.();
  }

  end() {
    clearTimeout(this.timer);
    this.element.replaceChildren();
    markdown(this.element, this.text);
  }
}
