"use strict";
(() => {
  const root = document.documentElement;
  const all = (query, from = document) => Array.from(from.querySelectorAll(query));
  const one = (id) => document.getElementById(id);
  const steps = all("details.step[data-top]");
  const groups = all("details.group");

  // A link into a closed step opens it, and everything around it.
  const reveal = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
      if (at.hidden) clear();
    }
    element.scrollIntoView({ block: "start" });
    const line = element.querySelector("summary");
    if (line) line.focus({ preventScroll: true });
  };
  const toHash = () => {
    const element = location.hash.length > 1 && one(decodeURIComponent(location.hash.slice(1)));
    if (element) reveal(element);
  };
  addEventListener("hashchange", toHash);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) toHash();
  });

  // Search and errors only.
  const filter = one("filter"), search = one("search"), only = one("only"), count = one("count");
  const texts = new Map();
  const text = (step) => {
    if (!texts.has(step)) texts.set(step, step.textContent.toLowerCase());
    return texts.get(step);
  };
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const filters = words.length > 0 || only.checked;
    let shown = 0;
    for (const step of steps) {
      const fits = (!only.checked || step.dataset.bad !== undefined)
        && words.every((word) => text(step).includes(word));
      step.hidden = !fits;
      shown += fits;
    }
    for (const group of groups) {
      const has = group.querySelector(":scope > .step:not([hidden])") !== null;
      group.hidden = !has;
      if (filters) group.open = has;
    }
    count.textContent = filters ? `${shown} of ${steps.length}` : "";
    find(words, shown);
  };
  // A search opens what it finds, if that is little, and marks the words.
  const MOST_OPENED = 12;
  const find = (words, shown) => {
    const marks = [];
    if (words.length > 0 && shown <= MOST_OPENED) {
      for (const step of steps.filter((step) => !step.hidden)) {
        const nodes = document.createTreeWalker(step, NodeFilter.SHOW_TEXT);
        while (nodes.nextNode()) {
          const node = nodes.currentNode, text = node.data.toLowerCase();
          for (const word of words) {
            const at = text.indexOf(word);
            if (at < 0 || text.length !== node.data.length) continue;
            const range = document.createRange();
            range.setStart(node, at);
            range.setEnd(node, at + word.length);
            marks.push(range);
            for (let up = node.parentElement; up !== step.parentElement; up = up.parentElement) {
              if (up.tagName === "DETAILS" && !up.classList.contains("long")) up.open = true;
            }
          }
        }
      }
    }
    if (window.Highlight && CSS.highlights) CSS.highlights.set("found", new Highlight(...marks));
  };
  const clear = () => { search.value = ""; only.checked = false; apply(); };
  if (filter && steps.length > 0) {
    filter.hidden = false;
    let timer;
    search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 120); });
    only.addEventListener("change", apply);
    filter.addEventListener("submit", (event) => event.preventDefault());
    const button = one("all");
    button.addEventListener("click", () => {
      const open = button.textContent === "Open all";
      const few = () => all("details.step, details.call");
      for (const line of groups.length > 0 ? groups : few()) line.open = open;
      button.textContent = open ? "Close all" : "Open all";
    });
  }

  // Keys.
  const keys = one("keys");
  if (keys) keys.hidden = false;
  const lines = () => all("details.group > summary, details.step > summary, details.call > summary")
    .filter((line) => line.offsetParent !== null && line.getClientRects().length > 0
      && !line.parentElement.parentElement.closest("details:not([open])"));
  const move = (by, where = () => true) => {
    const seen = lines(), here = document.activeElement;
    let at = seen.indexOf(here);
    if (at < 0) at = by > 0 ? -1 : seen.length;
    for (at += by; at >= 0 && at < seen.length; at += by) {
      if (where(seen[at])) { seen[at].focus(); seen[at].scrollIntoView({ block: "nearest" }); return; }
    }
  };
  // The error itself, not the lines around it.
  const nextError = () => {
    const bad = all("details[data-bad]").filter((line) => !line.querySelector("[data-bad]")
      && !line.closest("[data-top]").hidden);
    const here = document.activeElement && document.activeElement.closest("details");
    const after = bad.find((line) => !here
      || line !== here && here.compareDocumentPosition(line) & Node.DOCUMENT_POSITION_FOLLOWING);
    const line = after || bad[0];
    if (line) reveal(line);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input")) {
      if (event.key === "Escape") { clear(); event.target.blur(); }
      return;
    }
    const does = { j: () => move(1), k: () => move(-1), e: nextError,
      "/": () => filter && !filter.hidden && search.focus() }[event.key];
    if (does) { event.preventDefault(); does(); }
  });

  // A click on the chart goes to its step.
  for (const chart of all("svg.chart")) {
    chart.dataset.live = "";
    const step = (event) => {
      const box = chart.getBoundingClientRect(), number = Number(chart.dataset.steps);
      const at = Math.floor((event.clientX - box.left) / box.width * number);
      return `${chart.dataset.prefix}s${Math.min(Math.max(at, 0), number - 1)}`;
    };
    chart.addEventListener("click", (event) => {
      const id = step(event);
      history.replaceState(null, "", `#${id}`);
      const element = one(id);
      if (element) reveal(element);
    });
  }

  // Live: the page loads itself again, and keeps its place, its open lines and its search.
  const seconds = Number(root.dataset.reload);
  const name = `toolwright ${root.dataset.run}`;
  const state = (() => {
    try { return JSON.parse(sessionStorage.getItem(name)); } catch { return null; }
  })();
  let paused = false;
  if (state) {
    try { sessionStorage.removeItem(name); } catch { /* There is no storage for this page. */ }
    if (search) { search.value = state.search; only.checked = state.only; if (state.search || state.only) apply(); }
    for (const [id, open] of state.open) { const element = one(id); if (element) element.open = open; }
    groups.forEach((group, at) => { if (state.groups[at]) group.open = true; });
    paused = state.paused;
    scrollTo(0, state.end ? root.scrollHeight : state.top);
    const focus = state.focus && one(state.focus);
    if (focus) (focus.querySelector(":scope > summary") || focus).focus({ preventScroll: true });
  } else toHash();
  if (seconds > 0) {
    const pause = one("pause");
    const show = () => { pause.textContent = paused ? "Go on" : "Pause"; };
    pause.hidden = false;
    show();
    pause.addEventListener("click", () => { paused = !paused; show(); });
    setInterval(() => {
      const selects = String(getSelection()) !== "";
      if (paused || selects || document.hidden) return;
      const here = document.activeElement;
      const keep = {
        top: scrollY,
        // Who reads the end follows the end.
        end: scrollY > 0 && scrollY + innerHeight > root.scrollHeight - 40,
        open: all("details.step[id], details.call[id]").map((element) => [element.id, element.open]),
        groups: groups.map((group) => group.open),
        search: search ? search.value : "", only: only ? only.checked : false, paused,
        focus: here && (here.id || (here.parentElement && here.parentElement.id)) || "",
      };
      try { sessionStorage.setItem(name, JSON.stringify(keep)); } catch { /* The place is lost. */ }
      location.reload();
    }, seconds * 1000);
  }
})();
