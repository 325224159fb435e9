"use strict";
(() => {
  const one = (id) => document.getElementById(id);
  const attempts = Array.from(document.querySelectorAll(".attempts > tbody"));
  const link = (attempt) => attempt.querySelector(".line a");
  const inside = (attempt) => attempt.querySelector(":scope > .more");
  const isOpen = (attempt) => inside(attempt).classList.contains("open");
  const open = (attempt, yes) => {
    const more = inside(attempt);
    more.classList.toggle("open", yes);
    // A link has made it the target of the page too.
    more.classList.toggle("shut", !yes);
    link(attempt).setAttribute("aria-expanded", yes);
  };

  // Without a script, only the target of the page is open.
  for (const attempt of attempts) open(attempt, false);
  const reveal = (attempt) => {
    if (attempt.hidden) clear();
    open(attempt, true);
    link(attempt).focus({ preventScroll: true });
    attempt.scrollIntoView({ block: "center" });
  };
  const toHash = () => {
    const more = /^#a\d+$/.test(location.hash) && one(location.hash.slice(1));
    if (more) reveal(more.parentElement);
  };
  addEventListener("hashchange", toHash);
  document.addEventListener("click", (event) => {
    const clicked = event.target.closest('a[href^="#a"]');
    if (clicked) {
      const line = clicked.closest(".line");
      const more = /^#a\d+$/.test(clicked.hash) && one(clicked.hash.slice(1));
      if (!more) return;
      event.preventDefault();
      if (line) open(line.parentElement, !isOpen(line.parentElement));
      else reveal(more.parentElement);
      const at = isOpen(more.parentElement) ? clicked.hash : " ";
      try { history.replaceState(null, "", at === " " ? location.pathname + location.search : at); } catch { /* A page in a frame. */ }
      return;
    }
    // A click on the line is one on its link, unless it marks text.
    const line = event.target.closest(".line");
    if (line && !event.target.closest("a") && String(getSelection()) === "") link(line.parentElement).click();
  });

  // Filters.
  const filter = one("filter"), search = one("search"), only = one("only"), by = one("by"), count = one("count");
  const texts = new Map();
  const text = (attempt) => {
    if (!texts.has(attempt)) texts.set(attempt, attempt.textContent.toLowerCase());
    return texts.get(attempt);
  };
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const attempt of attempts) {
      const fits = (!only.checked || attempt.dataset.bad !== undefined)
        && (by.value === "" || attempt.dataset.by.split(" ").includes(by.value))
        && words.every((word) => text(attempt).includes(word));
      attempt.hidden = !fits;
      shown += fits;
    }
    const filters = words.length > 0 || only.checked || by.value !== "";
    count.textContent = filters ? `${shown} of ${attempts.length}` : "";
  };
  const clear = () => { search.value = ""; only.checked = false; by.value = ""; apply(); };
  if (attempts.length > 0) {
    filter.hidden = false;
    let timer;
    search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 120); });
    only.addEventListener("change", apply);
    by.addEventListener("change", apply);
    filter.addEventListener("submit", (event) => event.preventDefault());
    one("keys").hidden = false;
  }

  // Keys.
  const move = (by, where = () => true) => {
    const seen = attempts.filter((attempt) => !attempt.hidden);
    const here = document.activeElement && document.activeElement.closest(".attempts > tbody");
    let at = seen.indexOf(here);
    if (at < 0) at = by > 0 ? -1 : seen.length;
    for (at += by; at >= 0 && at < seen.length; at += by) {
      if (where(seen[at])) {
        link(seen[at]).focus({ preventScroll: true });
        seen[at].querySelector(".line").scrollIntoView({ block: "center" });
        return;
      }
    }
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select")) {
      if (event.key === "Escape") { clear(); event.target.blur(); }
      return;
    }
    const does = { j: () => move(1), k: () => move(-1),
      e: () => move(1, (attempt) => attempt.dataset.bad !== undefined),
      "/": () => !filter.hidden && search.focus() }[event.key];
    if (does) { event.preventDefault(); does(); }
  });
  toHash();
})();
