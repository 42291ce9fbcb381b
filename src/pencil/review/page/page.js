"use strict";
const $ = (id) => document.getElementById(id);
const LEAST_PIXELS = 160;  // smaller images are shown with crisp pixels
const FOUND = 1000;
const RETRY = 1000;
const PATIENCE = 1000;
const WORDS = { accepted: "accepted", kept: "kept", changed: "changed to", dropped: "dropped", skipped: "skipped", answered: "answered" };
const page = {
  token: "", client: "", classes: [], images: false, texts: false, goal: null, blind: false, grid: false, items: [], item: null,
  ready: false, busy: false, searching: false, picked: -1,
};

// state of this tab

function stored(name, make) {
  let value = sessionStorage.getItem(name);
  if (!value && make) sessionStorage.setItem(name, (value = make()));
  return value || "";
}
function ticket() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
async function ownClient() {
  // A duplicated tab copies the name of its client; the copy must not reserve the same items. A reloaded page waits
  // until the page before it has released the name.
  const name = stored("client", ticket);
  if (!navigator.locks) return name;
  const held = await new Promise((resolve) => {
    navigator.locks.request("client " + name, { signal: AbortSignal.timeout(PATIENCE) }, () => {
      resolve(true);
      return new Promise(() => {});  // until the page is left
    }).catch(() => resolve(false));
  });
  if (held) return name;
  sessionStorage.removeItem("client");
  return ownClient();
}
function takeToken() {
  if (location.hash.length > 1) {
    sessionStorage.setItem("token", location.hash.slice(1));
    history.replaceState(null, "", location.pathname);  // removes the token from the address bar
  }
  page.token = stored("token");
}

// requests to the server

class Refused extends Error {
  constructor(status, body) {
    super(body.error || "");
    this.status = status;
    this.body = body;
  }
}
async function ask(path, body) {
  const answer = await fetch(path, {
    method: body ? "POST" : "GET",
    headers: { Authorization: "Bearer " + page.token, ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, content);
  return content;
}
const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));
async function insist(path, body) {
  // Retry with the same ticket: the server records it once, even if the connection was lost.
  for (;;) {
    const used = page.token;  // read before the request: a new token may arrive while the old one is being rejected
    try {
      return await ask(path, body);
    } catch (error) {
      if (error instanceof Refused && error.status !== 401) throw error;
      if (error instanceof Refused) {
        say("The server has a new token. Open the address it printed in this tab. Your decisions are saved.", "bad");
        while (page.token === used) await pause(100);
      } else {
        say("The server does not respond. Retrying; your decisions are saved.", "bad");
        await pause(RETRY);
      }
    }
  }
}
const asked = () => ({ client: page.client, count: page.grid ? Number($("size").value) : 1 });
const signed = () => ({ ...asked(), reviewer: $("reviewer").value.trim() || "unknown", ticket: ticket() });

// display

function say(text, kind = "") {
  $("status").textContent = text;
  $("status").className = kind;
}
function note(title, text) {
  $("item").hidden = $("grid").hidden = true;
  $("note").hidden = false;
  $("title").textContent = title;
  $("text").textContent = text;
}
function element(tag, name, text) {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
}
function percent(share) {
  const nearlyAll = share >= 0.995 && share < 1;  // never rounded to 100 %
  return (nearlyAll ? Math.min(99.9, 100 * share) : 100 * share).toFixed(share < 0.0995 || nearlyAll ? 1 : 0) + " %";
}

function showProgress(progress) {
  $("done").max = Math.max(1, progress.total);
  $("done").value = progress.decided;
  $("count").textContent = progress.decided.toLocaleString("en") + " / " + progress.total.toLocaleString("en");
}
function showForecast({ forecast, agreement, statement }) {
  const stop = Boolean(forecast && forecast.stop);
  $("forecast").hidden = !(forecast && forecast.looks) && !agreement && !statement;
  $("forecast").className = stop ? "stop" : "";
  if (agreement) {
    const kappa = agreement.kappa === null ? "" : ", kappa " + agreement.kappa.toFixed(2);
    const share = agreement.both ? " (" + percent(agreement.share) + kappa + ")" : "";
    $("forecast").textContent = "Second opinion: " + agreement.agree + " of " + agreement.both + " agree" + share;
  } else if (statement) {
    $("forecast").textContent = statement;
  } else if (forecast) {
    const errors = page.goal === "relabel" ? "wrong suggestions" : "wrong labels";
    const looks = "the next " + (forecast.looks === 1 ? "look is" : forecast.looks + " looks are");
    const found = looks + " expected to find about " + Math.round(forecast.expected) + " " + errors;
    const fewer = ", fewer than " + forecast.stop_below + ". You can stop here.";
    $("forecast").textContent = found[0].toUpperCase() + found.slice(1) + (stop ? fewer : ".");
  }
  $("differ").hidden = !agreement;
}
function showLikely(item) {
  $("likely").replaceChildren(...item.likely.map(([label, share], index) => {
    const button = element("button", "", "");
    const bar = element("span", "bar", "");
    button.type = "button";
    bar.style.width = 100 * share + "%";
    const name = element("span", "name", page.classes[label]);
    if (label === item.given) name.append(element("span", "tag", "given"));
    button.append(bar, element("kbd", "", String(index + 1)), name, element("span", "share", share === null ? "" : percent(share)));
    button.addEventListener("click", () => act("choose", label));
    const place = document.createElement("li");
    place.append(button);
    return place;
  }));
}
async function original(kind, item) {
  const answer = await fetch("/api/" + kind + "/" + item.row, { headers: { Authorization: "Bearer " + page.token } });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || "no " + kind);
  return answer;
}
async function fillImage(image, kind, item) {
  const address = URL.createObjectURL(await (await original(kind, item)).blob());
  image.src = address;
  await image.decode().finally(() => URL.revokeObjectURL(address));
  image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) < LEAST_PIXELS);
  image.alt = "image of row " + item.id;
  image.hidden = false;
}
async function fillText(words, item) {
  words.textContent = (await (await original("text", item)).json()).text;  // never as HTML: it may come from anybody
  words.hidden = false;
}
async function showOriginal(item) {
  $("image").hidden = $("words").hidden = true;
  $("id").classList.toggle("alone", !page.images && !page.texts);
  try {
    if (page.images) await fillImage($("image"), "image", item);
    if (page.texts) await fillText($("words"), item);
  } catch (error) {
    $("id").classList.add("alone");
    say("The row cannot be shown: " + error.message, "bad");
  }
}
async function showItem(item) {
  $("id").textContent = item.id;
  if (!page.blind) showLabels(item);
  showLikely(item);
  await showOriginal(item);
}
function showLabels(item) {
  const [suggested, share] = item.likely[0] || [item.given, 0];
  const same = suggested === item.given;
  $("given").textContent = page.classes[item.given];
  $("suggested").textContent = page.classes[suggested];
  $("verdict").textContent = item.verdict + ": given label wrong " + percent(item.p_wrong) + ", suggested right " + percent(share);
  $("actions").querySelector("[data-action=accept]").hidden = same;  // accepting would be the same as keeping
  $("actions").querySelector("[data-action=keep] span").textContent = same ? "Keep given (also suggested)" : "Keep given";
  $("actions").querySelector("[data-action=keep]").classList.toggle("first", same);
}
async function show(answer) {
  showProgress(answer.progress);
  showForecast(answer);
  page.items = answer.items;
  page.item = answer.items[0] || null;
  page.ready = false;
  closeSearch();
  if (!page.item) return showEnd(answer.progress);
  $("note").hidden = true;
  $("item").hidden = page.grid;
  $("grid").hidden = !page.grid;
  $("toggle").querySelector("span").textContent = page.grid ? "One by one" : "Grid";
  await (page.grid ? showGrid(page.items) : showItem(page.item));
  page.ready = true;  // for a decision
  if (document.activeElement !== $("reviewer")) (page.grid ? $("tiles") : $("item")).focus({ preventScroll: true });
}
function showEnd(progress) {
  const left = progress.total - progress.decided;
  note(left ? "All remaining items are reserved" : "All done",
       left ? left + " items are open in other windows. Reload later." : "Every item is decided. Press Ctrl-C to stop the server.");
}
function cells(...texts) {
  const line = document.createElement("tr");
  line.append(...texts.map((text) => element("td", "", text)));
  return line;
}
function withButton(line, label, about, work) {
  const button = element("button", "", label), last = document.createElement("td");
  button.type = "button";
  button.setAttribute("aria-label", about);
  button.addEventListener("click", work);
  last.append(button);
  line.append(last);
  return line;
}
async function showDifferences() {
  if (!$("differ").open) return;
  const pairs = await insist("/api/disagreements");
  $("pairs").replaceChildren(...pairs.map(({ first, second }) => {
    const opinions = [first, second].map((entry) => entry.reviewer + ": " + described(entry));
    return withButton(cells(first.id, ...opinions), "Review again", "review " + first.id + " again", () => undo(first.entry));
  }));
}
async function showRecent() {
  if (!$("recent").open) return;
  const entries = await insist("/api/recent");
  $("entries").replaceChildren(...entries.map((entry) => {
    const what = described(entry), time = new Date(entry.at).toLocaleString();
    return withButton(cells(entry.id, what, entry.reviewer, time), "Undo", "undo " + what + " for " + entry.id, () => undo(entry.entry));
  }));
}

// actions

async function alone(work) {
  // One action at a time: a key must not decide on an item that is not on the screen yet.
  if (page.busy) return;
  page.busy = true;
  document.body.classList.add("waiting");
  try {
    await work();
    await showRecent();
    await showDifferences();
  } catch (error) {
    say(error.message || String(error), "bad");
  } finally {
    page.busy = false;
    document.body.classList.remove("waiting");
  }
}
function described(entry) {
  const label = entry.label === null ? "" : " " + page.classes[entry.label];
  return WORDS[entry.action] + label;
}
const chosen = () => (page.grid ? markedItems() : [page.item]);
const counted = (entries) => (entries.length === 1 ? entries[0].id : entries.length + " rows");
function act(action, label = null) {
  if (!page.item || !page.ready) return;
  return alone(async () => {
    const items = chosen().map(({ row, version }) => ({ row, version }));
    try {
      const answer = await insist("/api/decide", { ...signed(), items, action, label });
      await show(answer);
      const words = new Set(answer.made.map(described));
      say(counted(answer.made) + ": " + (words.size === 1 ? [...words][0] : "decided"), "good");
    } catch (error) {
      if (!error.body || !error.body.overtaken) throw error;
      await overtaken(error.body.overtaken, items.length);
    }
  });
}
async function overtaken(entry, count) {
  const what = entry.action === "undone" ? "undid a decision on" : "has already decided on";
  const result = entry.action === "undone" ? "" : ": " + described(entry);
  const lost = count === 1 ? "Your decision was not recorded." : "None of your " + count + " decisions was recorded.";
  await show(await insist("/api/next", asked()));
  say(entry.reviewer + " " + what + " " + entry.id + result + ". " + lost, "bad");
}
function undo(entry = null) {
  return alone(async () => {
    try {
      const answer = await insist("/api/undo", { ...signed(), entry });
      if (answer.undone.length) await show(answer);
      say(answer.undone.length ? counted(answer.undone) + ": undone" : "Nothing to undo.", answer.undone.length ? "good" : "");
    } catch (error) {
      if (!error.body || !error.body.overtaken) throw error;
      say(error.body.overtaken.reviewer + " has already undone this.", "bad");
    }
  });
}
function toggleGrid() {
  return alone(async () => {
    page.grid = !page.grid;
    sessionStorage.setItem("grid", page.grid ? "yes" : "");
    placeSearch();
    await show(await insist("/api/next", asked()));
  });
}

// another class

function matches() {
  const words = $("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);  // none: all classes
  if (!page.searching) return [];
  const found = [];
  for (let label = 0; label < page.classes.length && found.length < FOUND; label++) {
    const name = page.classes[label].toLowerCase();
    if (words.every((word) => name.includes(word))) found.push(label);
  }
  const whole = words.join(" ");
  return found.sort((a, b) => (page.classes[b].toLowerCase() === whole) - (page.classes[a].toLowerCase() === whole));
}
function search() {
  const found = matches();
  const least = $("search").value.trim() ? 0 : -1;  // without a word, Enter must not choose the first class
  page.picked = Math.max(least, Math.min(page.picked, found.length - 1));
  $("found").replaceChildren(...found.map((label, index) => {
    const option = element("div", "", page.classes[label]);
    option.id = "option-" + index;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", String(index === page.picked));
    option.addEventListener("click", () => act("choose", label));
    return option;
  }));
  $("found").hidden = !found.length;
  $("search").setAttribute("aria-expanded", String(found.length > 0));
  if (found.length && page.picked >= 0) {
    $("search").setAttribute("aria-activedescendant", "option-" + page.picked);
    $("option-" + page.picked).scrollIntoView({ block: "nearest" });
  } else {
    $("search").removeAttribute("aria-activedescendant");
  }
  return found;
}
function openSearch() {
  page.searching = true;
  search();
}
function closeSearch() {
  $("search").value = "";
  page.searching = false;
  page.picked = -1;
  search();
}
function placeSearch() {
  (page.grid ? $("bulk") : $("likely").parentNode).append($("another"));
}
function searchKey(event) {
  if (event.key === "Escape") {
    closeSearch();
    (page.grid ? $("tiles") : $("item")).focus();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    page.picked += event.key === "ArrowDown" ? 1 : -1;
    search();
  } else if (event.key === "Enter" && !event.repeat) {
    const found = search();
    if (page.picked >= 0 && found.length) act("choose", found[page.picked]);
  } else {
    return;
  }
  event.preventDefault();
}

// keys

const BLIND_KEYS = ["d", "u", "/", "?"];  // an audit hides the labels that other keys refer to
const KEYS = {
  a: () => act("accept"), Enter: () => act("accept"), k: () => act("keep"), d: () => act("drop"), s: () => act("skip"),
  u: () => undo(), g: toggleGrid, "/": () => $("search").focus(), "?": () => $("help").showModal(),
};
function key(event) {
  const undoing = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !event.shiftKey;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (typing || $("help").open || (!undoing && (event.ctrlKey || event.metaKey || event.altKey))) return;
  const pressing = event.target.closest && event.target.closest("button, summary");
  if (pressing && (event.key === "Enter" || event.key === " ")) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const work = undoing ? () => undo() : (page.grid && GRID_KEYS[name]) || choice(name) || (!page.blind || BLIND_KEYS.includes(name)) && KEYS[name];
  if (!work || (event.repeat && !name.startsWith("Arrow"))) return;
  event.preventDefault();
  work();
}
function choice(name) {
  const label = !page.grid && page.item && name.length === 1 && (page.item.likely[Number.parseInt(name, 10) - 1] || [])[0];
  return typeof label === "number" ? () => act("choose", label) : null;
}

// start

async function begin() {
  if (!page.token) return askForToken();
  try {
    const about = await ask("/api/start");
    page.classes = about.classes;
    page.images = about.images;
    page.texts = about.texts;
    page.goal = about.goal;
    if (about.blind) hideLabels();
    $("run").textContent = about.run;
    document.title = (page.blind ? "pencil audit " : "pencil review ") + about.run;
    $("reviewer").value = localStorage.getItem("reviewer") || about.reviewer;
    $("token").hidden = true;
    if (about.trouble) say(about.trouble, "bad");
    await alone(async () => show(await insist("/api/next", asked())));
  } catch (error) {
    if (error instanceof Refused && error.status === 401) askForToken();
    else note("The server does not respond", "Restart it with pencil review, then reload this page. " + error.message);
  }
}
function hideLabels() {
  page.blind = true;
  page.grid = false;
  placeSearch();
  document.body.classList.add("blind");
  document.querySelector("h1").firstChild.textContent = "pencil audit ";
  $("actions").querySelector("[data-action=drop]").firstChild.textContent = "Cannot tell ";
}
function askForToken() {
  note("Token required", "Open the address that pencil review printed, or enter the token: the part of it after #.");
  $("token").hidden = false;
  $("token").focus();
}
$("token").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  sessionStorage.setItem("token", $("token").value.trim());
  page.token = stored("token");
  begin();
});
for (const button of document.querySelectorAll("[data-action]")) button.addEventListener("click", () => act(button.dataset.action));
$("undo").addEventListener("click", () => undo());
$("toggle").addEventListener("click", toggleGrid);
$("ask").addEventListener("click", () => $("help").showModal());
$("search").addEventListener("focus", openSearch);
$("search").addEventListener("blur", closeSearch);
$("search").addEventListener("input", () => { page.picked = -1; search(); });
$("search").addEventListener("keydown", searchKey);
$("found").addEventListener("mousedown", (event) => event.preventDefault());  // keeps the focus in the search box
$("reviewer").addEventListener("change", () => localStorage.setItem("reviewer", $("reviewer").value.trim()));
$("reviewer").addEventListener("keydown", (event) => { if (event.key === "Enter") (page.grid ? $("tiles") : $("item")).focus(); });
$("recent").addEventListener("toggle", () => showRecent().catch((error) => say(error.message, "bad")));
$("differ").addEventListener("toggle", () => showDifferences().catch((error) => say(error.message, "bad")));
document.addEventListener("keydown", key);
window.addEventListener("hashchange", () => { takeToken(); if (!page.item && !page.busy) begin(); });
