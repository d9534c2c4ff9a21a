"use strict";
const status = document.getElementById("status");
const main = document.getElementById("main");
const keysOf = (part) => [...part.querySelectorAll("[data-key]")];
// The standings as they were sent, without marks of new rows.
let shown = main.cloneNode(true);
let last = "";

function show(text, state) {
  // A screen reader speaks each change of the text.
  if (status.textContent !== text) status.textContent = text;
  status.dataset.state = state;
}

function replace(part, fresh, known) {
  const copy = document.importNode(fresh, true);
  for (const row of keysOf(copy)) {
    if (!known.has(row.dataset.key)) row.classList.add("new");
  }
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  part.replaceWith(copy);
  if (focused !== null) copy.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

function update(fresh) {
  const known = new Set(keysOf(shown).map((row) => row.dataset.key));
  if (fresh.children.length !== shown.children.length) {
    location.reload();
    return;
  }
  [...main.children].forEach((part, place) => {
    const changed = !fresh.children[place].isEqualNode(shown.children[place]);
    if (changed) replace(part, fresh.children[place], known);
  });
  shown = fresh;
}

async function look() {
  // The browser sends the ETag of the page that it has; the answer to an unchanged page is 304 without a body.
  const answer = await fetch(location.href, { cache: "no-cache", signal: AbortSignal.timeout(20000) });
  if (answer.status === 403 || answer.status === 404) {
    location.reload();
    return;
  }
  if (!answer.ok) throw new Error(answer.statusText);
  const text = await answer.text();
  if (text !== last) update(new DOMParser().parseFromString(text, "text/html").getElementById("main"));
  last = text;
  show("Live", "live");
}

async function follow() {
  for (;;) {
    while (document.hidden) {
      await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
    }
    await look().catch(() => show("Not connected", "lost"));
    await new Promise((done) => setTimeout(done, 3000 + 2000 * Math.random()));
  }
}

follow();
