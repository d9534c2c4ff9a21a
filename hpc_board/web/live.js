"use strict";
const status = document.getElementById("status");
const keys = (part) => new Set([...part.querySelectorAll("[data-key]")].map((row) => row.dataset.key));

function show(text, state) {
  status.textContent = text;
  status.dataset.state = state;
}

function replace({ id, html, parts }) {
  const part = document.getElementById(id);
  if (part === null || document.querySelectorAll(".part").length !== parts) {
    location.reload();
    return;
  }
  const before = keys(part);
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  for (const row of fresh.content.querySelectorAll("[data-key]")) {
    if (!before.has(row.dataset.key)) row.classList.add("new");
  }
  part.replaceChildren(fresh.content);
  if (focused !== null) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

let version = status.dataset.version;

function connect() {
  const source = new EventSource(`${status.dataset.events}?v=${version}`);
  const again = () => {
    source.close();
    show("Not connected", "lost");
    setTimeout(connect, 3000 + 2000 * Math.random());
  };
  source.addEventListener("open", () => show("Live", "live"));
  source.addEventListener("part", (event) => replace(JSON.parse(event.data)));
  source.addEventListener("version", (event) => { version = event.data; });
  source.addEventListener("gone", () => location.reload());
  source.addEventListener("rest", () => { source.close(); connect(); });
  source.addEventListener("error", again);
}

connect();
