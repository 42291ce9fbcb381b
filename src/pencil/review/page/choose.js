
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
