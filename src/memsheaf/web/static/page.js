// What the page does beyond links and forms: live updates, search as one types, keyboard. Everything works without it.
"use strict";

const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Fetch a page of ours and replace the elements with these ids by what it has. What was asked for later wins, and what
// a person asked for wins over a live update.
let asked = 0;
async function refresh(url, ids, options = {}, live = false) {
  const mine = live ? asked : ++asked;
  const answer = await fetch(url, { credentials: "same-origin", ...options });
  if (!answer.ok || mine !== asked) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const id of ids) {
    const [old, now] = [document.getElementById(id), fresh.getElementById(id)];
    if (old && now && !old.isEqualNode(now)) keepFocus(old, now);
  }
  document.body.dataset.number = fresh.body.dataset.number || document.body.dataset.number;
  return true;
}

// Replace an element; what had the focus in it has it again, and what was selected stays selected.
function keepFocus(old, now) {
  const active = old.contains(document.activeElement) ? document.activeElement : null;
  const name = active && (active.id ? `#${CSS.escape(active.id)}` : active.name ? `[name="${CSS.escape(active.name)}"][value="${CSS.escape(active.value)}"]` : "");
  const ticked = new Set(all("input[type=checkbox]:checked", old).map((box) => box.name + "\n" + box.value));
  const fresh = document.adoptNode(now);
  all("input[type=checkbox]", fresh).forEach((box) => { if (ticked.has(box.name + "\n" + box.value)) box.checked = true; });
  old.replaceWith(fresh);
  if (name) one(name, fresh)?.focus({ preventScroll: true });
  countTicked();
}

// Live updates: regions with data-live are fetched anew when something changed elsewhere; not while one types in them.
let stream = null;
function listen() {
  if (document.visibilityState === "hidden" || !one("[data-live]")) {
    stream?.close();
    stream = null;
  } else if (!stream) {
    stream = new EventSource("/live");
    stream.onmessage = (event) => {
      const regions = all("[data-live]").filter((region) => region.id && !isTyping(region));
      if (event.data === document.body.dataset.number || !regions.length) return;
      refresh(location.href, regions.map((region) => region.id), {}, true).then((done) => {
        if (done) document.body.dataset.number = event.data;
        const told = one("#live");
        if (done && told) told.textContent = told.dataset.text;
      }).catch(() => {});
    };
  }
}
const isTyping = (region) => {
  const active = document.activeElement;
  return active && region.contains(active) && active.matches("textarea, input:not([type=checkbox]):not([type=radio])");
};
document.addEventListener("visibilitychange", listen);
addEventListener("pagehide", () => { stream?.close(); stream = null; });
addEventListener("pageshow", listen);

// Search as one types: <form data-typing="results"> is fetched, and the element with that id replaced.
let waiting = 0;
function typed(form) {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const query = new URLSearchParams(new FormData(form));
    [...query].forEach(([name, value]) => { if (!value) query.delete(name); });
    const url = `${form.getAttribute("action") || location.pathname}?${query}`;
    const ids = form.dataset.typing.split(" ");
    ids.forEach((id) => document.getElementById(id)?.classList.add("busy"));
    refresh(url, ids)
      .then((done) => { if (done) history.replaceState(null, "", url); })
      .catch(() => {})
      .finally(() => ids.forEach((id) => document.getElementById(id)?.classList.remove("busy")));
  }, 120);
}
document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-typing]");
  if (form) typed(form);
  const text = event.target.closest?.("[data-preview]");
  if (text) preview(text);
});
document.addEventListener("change", (event) => {
  const form = event.target.closest?.("form[data-typing]");
  if (form) typed(form);
});

// A preview beside the editor: the form is sent to data-preview, and #preview replaced.
let previewing = 0;
function preview(field) {
  clearTimeout(previewing);
  previewing = setTimeout(() => {
    const body = new URLSearchParams(new FormData(field.form));
    refresh(field.dataset.preview, ["preview"], { method: "POST", body }).catch(() => {});
  }, 250);
}

// Select many: data-all ticks every box of its form's name; elements with data-ticked show how many are.
document.addEventListener("click", (event) => {
  const box = event.target.closest?.("[data-all]");
  if (box) all(`input[type=checkbox][name="${CSS.escape(box.dataset.all)}"]`).forEach((other) => { other.checked = box.checked; });
  countTicked();
});
function countTicked() {
  for (const box of all("[data-all]")) {
    const boxes = all(`input[type=checkbox][name="${CSS.escape(box.dataset.all)}"]`);
    box.checked = boxes.length > 0 && boxes.every((other) => other.checked);
  }
  for (const place of all("[data-ticked]")) {
    const count = all(`input[type=checkbox][name="${CSS.escape(place.dataset.ticked)}"]:checked`).length;
    place.textContent = count ? (place.dataset.text || "{n}").replace("{n}", count) : "";
  }
}

// Keyboard: / searches, ? tells the keys, j and k move between cards, and a letter presses the button of its data-key.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input:not([type=checkbox]), textarea, select, dialog")) {
    if (event.key === "Escape") event.target.blur?.();
    return;
  }
  const cards = all("[data-card]");
  const at = cards.indexOf(document.activeElement?.closest("[data-card]"));
  if ((event.key === "j" || event.key === "k") && cards.length) {
    cards[Math.max(0, Math.min(cards.length - 1, at < 0 ? 0 : at + (event.key === "j" ? 1 : -1)))].focus();
  } else if (event.key === "/") {
    one("[data-focus='/']")?.focus();
  } else if (event.key === "?") {
    one("#keys")?.showModal();
  } else if (/^[a-z]$/.test(event.key)) {
    const selector = `[data-key="${event.key}"]`;
    const found = (at >= 0 && one(selector, cards[at])) || one(`${selector}:not([data-card] *)`);
    if (!found) return;
    found.matches("input, textarea") ? found.focus() : found.click();
  } else {
    return;
  }
  event.preventDefault();
});

// A form is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
});
addEventListener("pageshow", () => all("form[data-sent]").forEach((form) => { delete form.dataset.sent; }));

countTicked();
listen();
