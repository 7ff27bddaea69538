"use strict";
// The pages work without this. It refreshes what is under way, copies, and stops double clicks.

const EVERY = { yes: 2000, slow: 30000 }; // milliseconds, by how busy the page says it is

function say(words) {
  let box = document.getElementById("busy");
  if (!box) {
    box = document.createElement("p");
    box.id = "busy";
    box.setAttribute("role", "status");
    document.getElementById("main").append(box);
  }
  box.textContent = words;
  box.hidden = !words;
}

// Parts of a page that change by themselves

function pace() {
  const states = [...document.querySelectorAll("[data-busy]")].map((part) => part.dataset.busy);
  return states.includes("yes") ? EVERY.yes : states.includes("slow") ? EVERY.slow : 0;
}

function lookLater() {
  if (pace()) setTimeout(look, pace());
}

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.redirected) return location.reload(); // the session has ended
      if (answer.ok) replaceParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // the service restarts, or the network is away: try again
    }
  }
  lookLater();
}

function replaceParts(fresh) {
  const isOver = fresh.querySelector('[data-busy="yes"], [data-busy="slow"]') === null;
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    const isUsed = part.contains(document.activeElement);
    // A part that somebody is in is left alone until there is nothing more to wait for.
    if (!other || part.outerHTML === other.outerHTML || (isUsed && !isOver)) continue;
    part.className = other.className;
    if (other.dataset.busy) part.dataset.busy = other.dataset.busy;
    part.replaceChildren(...other.childNodes);
    if (isUsed) document.getElementById("main").focus({ preventScroll: true });
  }
  document.title = fresh.title;
  offerCopies();
}

// Copying

function offerCopies() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const words = [...button.childNodes];
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    say("Copied.");
  } catch {
    button.textContent = "Select it, and copy it by hand";
  }
  setTimeout(() => {
    button.replaceChildren(...words);
    say("");
  }, 2000);
});

// What takes a while, and is sent once

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
  if (form.dataset.busyWords) say(form.dataset.busyWords);
  if ("stays" in form.dataset) {
    setTimeout(() => {
      delete form.dataset.sent;
      say("");
    }, 3000); // the answer is a file, so the page stays
  }
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-busy-words]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) say(link.dataset.busyWords);
});

addEventListener("pageshow", () => {
  say("");
  for (const form of document.forms) delete form.dataset.sent;
});

offerCopies();
lookLater();
