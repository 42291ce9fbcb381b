"use strict";
const $ = (id) => document.getElementById(id);
const LEAST_PIXELS = 160;  // smaller images are shown with crisp pixels
const FOUND = 1000;
const RETRY = 1000;
const PATIENCE = 1000;
const WORDS = { accepted: "accepted", kept: "kept", changed: "changed to", dropped: "dropped", skipped: "skipped", answered: "answered" };
const OTHER_RUN = "The page now shows another run, or changed labels. If a decision was still waiting, it was not recorded here.";
const page = {
  token: "", client: "", identity: "", classes: [], images: false, texts: false, goal: null, blind: false, grid: false, items: [], item: null,
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
function keepToken(token) {
  if (token !== stored("token")) sessionStorage.removeItem("reviewer");  // typed for the server before
  sessionStorage.setItem("token", token);
}
function takeToken() {
  if (location.hash.length > 1) {
    keepToken(location.hash.slice(1));
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
      if (error instanceof Refused && error.body.identity) await startOver();
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
function startOver() {
  // What is on the screen belongs to another run than the server's, so nothing of it may be sent.
  sessionStorage.setItem("said", OTHER_RUN);
  location.reload();
  return new Promise(() => {});  // until the page is left
}
const asked = () => ({ client: page.client, identity: page.identity, count: page.grid ? Number($("size").value) : 1 });
const signed = () => ({ ...asked(), reviewer: $("reviewer").value.trim() || "unknown", ticket: ticket() });

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

// start

async function load() {
  const about = await ask("/api/start");
  if (page.identity && page.identity !== about.identity) await startOver();
  for (const name of ["identity", "classes", "images", "texts", "goal"]) page[name] = about[name];
  if (about.blind) hideLabels();
  $("run").textContent = about.run;
  document.title = (page.blind ? "pencil audit " : "pencil review ") + about.run;
  // A name typed for this server, the name that its command was given, a name typed at any time, the user name.
  $("reviewer").value = stored("reviewer") || (!about.named && localStorage.getItem("reviewer")) || about.reviewer;
  $("token").hidden = true;
  const trouble = [stored("said"), about.trouble].filter(Boolean).join(" ");
  sessionStorage.removeItem("said");
  if (trouble) say(trouble, "bad");
}
async function begin() {
  if (!page.token) return askForToken();
  try {
    await load();
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
  keepToken($("token").value.trim());
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
$("reviewer").addEventListener("change", () => {
  for (const storage of [sessionStorage, localStorage]) storage.setItem("reviewer", $("reviewer").value.trim());
});
$("reviewer").addEventListener("keydown", (event) => { if (event.key === "Enter") (page.grid ? $("tiles") : $("item")).focus(); });
$("recent").addEventListener("toggle", () => showRecent().catch((error) => say(error.message, "bad")));
$("differ").addEventListener("toggle", () => showDifferences().catch((error) => say(error.message, "bad")));
document.addEventListener("keydown", key);
window.addEventListener("hashchange", () => {
  takeToken();
  if (!page.item && !page.busy) begin();
  else load().catch((error) => say(error.message, "bad"));  // the new server may show another run
});
