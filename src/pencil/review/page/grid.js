
// the grid: several items at once, marked and decided together

const grid = { tiles: new Map(), marked: new Set(), current: 0 };

function markedItems() {
  const marked = page.items.filter((item) => grid.marked.has(item.row));
  return marked.length ? marked : [page.items[grid.current]];
}
function newTile(item) {
  const tile = element("div", "tile", "");
  tile.id = "row-" + item.row;
  tile.setAttribute("role", "option");
  const suggested = (item.likely[0] || [item.given])[0];
  const names = element("p", "names", "");
  names.append(element("span", "given", page.classes[item.given]));
  if (suggested !== item.given) names.append(" → ", element("span", "suggested", page.classes[suggested]));
  tile.append(element("p", "id", item.id), names, element("p", "wrong", "given wrong " + percent(item.p_wrong)));
  tile.addEventListener("click", () => { moveTo(page.items.findIndex((other) => other.row === item.row)); toggleMark(); });
  return tile;
}
async function fillTile(tile, item) {
  if (!page.images && !page.texts) return;
  const shown = document.createElement(page.images ? "img" : "pre");
  shown.alt = "";
  tile.prepend(shown);
  try {
    await (page.images ? fillImage(shown, "thumbnail", item) : fillText(shown, item));
  } catch (error) {
    shown.replaceWith(element("p", "bad", error.message));
  }
}
async function showGrid(items) {
  const kept = new Map();
  const filled = items.map((item) => {
    const known = grid.tiles.get(item.row);
    const tile = known && known.version === item.version ? known : { version: item.version, element: newTile(item) };
    kept.set(item.row, tile);
    return tile === known ? null : fillTile(tile.element, item);
  });
  grid.tiles = kept;
  grid.marked = new Set([...grid.marked].filter((row) => kept.has(row)));
  grid.current = Math.min(grid.current, items.length - 1);
  $("tiles").replaceChildren(...items.map((item) => kept.get(item.row).element));
  showMarks();
  await Promise.all(filled);
}
function showMarks() {
  page.items.forEach((item, index) => {
    const tile = grid.tiles.get(item.row).element;
    tile.setAttribute("aria-selected", String(grid.marked.has(item.row)));
    tile.classList.toggle("current", index === grid.current);
  });
  const count = grid.marked.size;
  $("marked").textContent = count ? count + " of " + page.items.length + " marked" : "None marked: keys apply to the current item.";
  $("tiles").setAttribute("aria-activedescendant", "row-" + page.items[grid.current].row);
}
function moveTo(index) {
  grid.current = Math.max(0, Math.min(index, page.items.length - 1));
  showMarks();
  grid.tiles.get(page.items[grid.current].row).element.scrollIntoView({ block: "nearest" });
}
function columns() {
  const tiles = Array.from($("tiles").children);
  const next = tiles.findIndex((tile) => tile.offsetTop > tiles[0].offsetTop);
  return next < 0 ? tiles.length : next;
}
function toggleMark() {
  const row = page.items[grid.current].row;
  if (!grid.marked.delete(row)) grid.marked.add(row);
  showMarks();
}
function toggleAll() {
  const all = grid.marked.size === page.items.length;
  grid.marked = new Set(all ? [] : page.items.map((item) => item.row));
  showMarks();
}
const whenReady = (work) => () => { if (page.item && page.ready && !page.busy) work(); };
const GRID_KEYS = {
  ArrowLeft: whenReady(() => moveTo(grid.current - 1)), ArrowRight: whenReady(() => moveTo(grid.current + 1)),
  ArrowUp: whenReady(() => moveTo(grid.current - columns())), ArrowDown: whenReady(() => moveTo(grid.current + columns())),
  " ": whenReady(toggleMark), m: whenReady(toggleAll),
};
$("all").addEventListener("click", GRID_KEYS.m);
$("size").addEventListener("change", () => {
  sessionStorage.setItem("size", $("size").value);
  alone(async () => show(await insist("/api/next", asked())));
});

// the page starts

(async () => {
  page.grid = stored("grid") === "yes";
  $("size").value = stored("size", () => "24");
  placeSearch();
  takeToken();
  page.client = await ownClient();
  await begin();
})();
