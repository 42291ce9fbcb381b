
// display

const REFERENCES = 3;  // rows shown for a class
const MOST_REFERENCES = 300;
const examples = { rows: new Map(), shown: new Map() };  // reference rows by class, their elements by row

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
  showReferences(item).catch(() => {});  // they help, but no decision waits for them
  await showOriginal(item);
}
function compared(item) {
  // The classes to compare, with a word for each: given and suggested, or the next likely one if these are the same.
  const [suggested, next] = item.likely.map(([label]) => label);
  if (suggested !== item.given) return [["given", item.given], ["suggested", suggested]];
  return [["given and suggested", item.given], ...(next === undefined ? [] : [["next likely", next]])];
}
async function showReferences(item) {
  $("references").hidden = page.blind || (!page.images && !page.texts);
  $("references").replaceChildren();
  if ($("references").hidden) return;
  const groups = await Promise.all(compared(item).map(([word, label]) => referenceGroup(word, label, item)));
  if (page.item === item) $("references").replaceChildren(...groups.filter(Boolean));
}
async function referenceGroup(word, label, item) {
  const rows = (await referenceRows(label)).filter((row) => row !== item.row).slice(0, REFERENCES);
  if (!rows.length) return null;
  const group = element("figure", "sheet", ""), caption = element("figcaption", "", word + ": ");
  caption.append(element("strong", word === "given" ? "given" : "suggested", page.classes[label]));
  group.append(caption, ...await Promise.all(rows.map((row) => reference(row, label))));
  return group;
}
async function referenceRows(label) {
  if (!examples.rows.has(label)) examples.rows.set(label, (await ask("/api/references/" + label)).rows);
  return examples.rows.get(label);
}
async function reference(row, label) {
  if (examples.shown.has(row)) return examples.shown.get(row);
  const shown = document.createElement(page.images ? "img" : "pre"), item = { row, id: page.classes[label] };
  await (page.images ? fillImage(shown, "thumbnail", item) : fillText(shown, item));
  shown.alt = "example of " + page.classes[label];
  if (examples.shown.size >= MOST_REFERENCES) examples.shown.clear();
  examples.shown.set(row, shown);
  return shown;
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
