// The map: dots on a canvas, to be moved, zoomed and opened by mouse, touch and keyboard. A module of its own.
const box = document.querySelector("[data-map]");
const canvas = box.querySelector("canvas"), tip = box.querySelector(".tip"), pen = canvas.getContext("2d");
const kinds = ["user", "feedback", "project", "reference", "other"], hidden = new Set(), fingers = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let data = null, view = { x: 0, y: 0, zoom: 1 }, sprites = [], at = -1, wide = 0, high = 0, asked = 0, moved = 0;
function makeSprites(reach, spread) { // a dot with its glow, one picture a type: many times as quick as circles
  const glow = 20 + Math.min(60, 2600 / Math.sqrt(data.dots.length)), hex = (alpha) => Math.round(alpha).toString(16).padStart(2, "0");
  sprites = kinds.map((kind) => {
    const sprite = new OffscreenCanvas(2 * reach, 2 * reach), brush = sprite.getContext("2d");
    const light = brush.createRadialGradient(reach, reach, 0, reach, reach, reach), colour = style(`--kind-${kind}`);
    [[0, 240], [0.92 / spread, 240], [1.12 / spread, glow], [0.5, glow / 3], [1, 0]].forEach(([stop, alpha]) => light.addColorStop(stop, colour + hex(alpha)));
    Object.assign(brush, { fillStyle: light }).fillRect(0, 0, 2 * reach, 2 * reach);
    return sprite.transferToImageBitmap();
  });
}
const redraw = () => { asked ||= requestAnimationFrame(draw); };
const stretch = (one, other) => Math.max(1, Math.min(1.5, one / other));
const scale = () => Math.min(wide, high) / 2 * 0.88 * view.zoom;
const place = (x, y) => [wide / 2 + (x * stretch(wide, high) - view.x) * scale(), high / 2 + (y * stretch(high, wide) - view.y) * scale()];
const isShown = (dot) => !hidden.has(dot[2]);
function draw() {
  asked = 0;
  if (!data) return;
  const count = data.dots.length, ink = style("--ink"), places = data.dots.map((dot) => place(dot[0], dot[1]));
  const size = Math.max(1.6, Math.min(6, 70 / Math.sqrt(count))) * Math.min(2.4, Math.sqrt(view.zoom)) * (wide < 500 ? 0.7 : 1);
  const isSeen = (number) => { const [x, y] = places[number]; return isShown(data.dots[number]) && x > -60 && y > -60 && x < wide + 60 && y < high + 60; };
  const seen = places.map((_, number) => number).filter(isSeen), spread = count > 1500 ? 5 : 8, reach = Math.ceil(size * spread * devicePixelRatio);
  if (sprites[0]?.width !== 2 * reach) makeSprites(reach, spread);
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.clearRect(0, 0, wide, high);
  pen.strokeStyle = ink;
  for (const [from, to, isAlike] of data.links) {
    if (!isShown(data.dots[from]) || !isShown(data.dots[to]) || !(isSeen(from) || isSeen(to))) continue;
    const isNear = from === at || to === at;
    Object.assign(pen, { globalAlpha: isNear ? 0.9 : isAlike ? 0.15 : 0.3, lineWidth: isNear ? 1.8 : 1 });
    path(() => { pen.moveTo(...places[from]); pen.lineTo(...places[to]); }).stroke();
  }
  Object.assign(pen, { globalAlpha: 1, lineWidth: 2, globalCompositeOperation: dark.matches && count < 1000 ? "lighter" : "source-over" });
  pen.setTransform(1, 0, 0, 1, 0, 0); // whole pixels
  for (const number of seen) pen.drawImage(sprites[data.dots[number][2]], ...places[number].map((one) => Math.round(one * devicePixelRatio) - reach));
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.globalCompositeOperation = "source-over";
  if (at >= 0) path(() => pen.arc(...places[at], size + 3, 0, 7)).stroke();
  drawNames(ink, style("--back"));
}
function path(trace) { pen.beginPath(); trace(); return pen; }
function drawNames(ink, back) { // the largest first; one that would cover another waits until there is room
  const taken = [], letters = wide < 500 ? 12 : 15;
  Object.assign(pen, { font: `600 ${letters}px ${getComputedStyle(box).fontFamily}`, textAlign: "center", textBaseline: "middle", lineJoin: "round", lineWidth: 4, strokeStyle: back, fillStyle: ink });
  for (const [x, y, name] of data.clusters) {
    const half = pen.measureText(name).width / 2 + 6, [left, top] = place(x, y);
    const [middle, above] = [Math.max(half, Math.min(wide - half, left)), Math.max(letters, top - letters)];
    if (left < 0 || left > wide || top < 0 || top > high || taken.some(([a, b, c]) => Math.abs(a - middle) < half + c && Math.abs(b - above) < letters * 1.6)) continue;
    taken.push([middle, above, half]);
    for (const write of ["strokeText", "fillText"]) pen[write](name, middle, above);
  }
}
function resize() {
  [wide, high] = [canvas.clientWidth, canvas.clientHeight];
  Object.assign(canvas, { width: wide * devicePixelRatio, height: high * devicePixelRatio });
  redraw();
}
function choose(number) {
  if (at !== (at = number)) redraw();
  canvas.classList.toggle("on", at >= 0);
  const dot = data.dots[at], [x, y] = dot ? place(dot[0], dot[1]) : [0, 0];
  tip.textContent = dot ? `${dot[4]}\n${kinds[dot[2]]} · ${data.scopes[dot[3]]}` : "";
  tip.style.transform = `translate(${Math.max(4, Math.min(wide - tip.offsetWidth - 4, x + 12))}px, ${y > high - 90 ? y - tip.offsetHeight - 12 : y + 14}px)`;
}
const nearest = (event) => data.dots.reduce(([found, most], dot, number) => {
  const [x, y] = place(dot[0], dot[1]), apart = Math.hypot(x - event.offsetX, y - event.offsetY);
  return apart < most && isShown(dot) ? [number, apart] : [found, most];
}, [-1, 14])[0];
function move(x, y, zoom = 1, around = [wide / 2, high / 2]) {
  const next = Math.max(0.7, Math.min(40, view.zoom * zoom)), kept = (1 - view.zoom / next) / scale();
  Object.assign(view, { x: view.x + x / scale() + (around[0] - wide / 2) * kept, y: view.y + y / scale() + (around[1] - high / 2) * kept, zoom: next });
  choose(-1);
  redraw();
}
const whole = () => { view = { x: 0, y: 0, zoom: 1 }; move(0, 0); };
const open = (number) => { if (number >= 0) location.href = data.dots[number][5]; };
const on = (name, work, options) => canvas.addEventListener(name, (event) => { if (data) work(event); }, options);
on("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, event); moved = 0; });
on("pointermove", (event) => {
  const last = fingers.get(event.pointerId), other = [...fingers.values()].find((one) => one.pointerId !== event.pointerId);
  if (!last) return choose(nearest(event));
  const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
  moved += Math.hypot(event.clientX - last.clientX, event.clientY - last.clientY);
  if (other) move(0, 0, apart(event) / Math.max(1, apart(last)), [event.offsetX, event.offsetY]);
  else if (moved > 4) move(last.clientX - event.clientX, last.clientY - event.clientY);
  fingers.set(event.pointerId, event);
});
on("pointerup", (event) => {
  const found = moved <= 4 && fingers.size === 1 ? nearest(event) : -1;
  fingers.delete(event.pointerId);
  event.pointerType === "mouse" || found === at ? open(found) : choose(found); // a first touch tells, a second opens
});
on("pointercancel", (event) => fingers.delete(event.pointerId));
on("pointerleave", () => { if (!fingers.size) choose(-1); });
on("wheel", (event) => { event.preventDefault(); move(0, 0, Math.exp(-event.deltaY / 300), [event.offsetX, event.offsetY]); }, { passive: false });
on("keydown", (event) => {
  const next = (by) => () => choose((Math.max(at, by < 0 ? 0 : -1) + by + data.dots.length) % data.dots.length);
  const keys = {
    ArrowLeft: () => move(-60, 0), ArrowRight: () => move(60, 0), ArrowUp: () => move(0, -60), ArrowDown: () => move(0, 60),
    "+": () => move(0, 0, 1.3), "=": () => move(0, 0, 1.3), "-": () => move(0, 0, 1 / 1.3), 0: whole, Escape: whole, n: next(1), p: next(-1), Enter: () => open(at),
  };
  const work = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key];
  if (work) { event.preventDefault(); work(); }
});
box.addEventListener("click", (event) => {
  const { zoom, kind } = event.target.closest("button")?.dataset ?? {};
  if (data && zoom) Number(zoom) ? move(0, 0, Number(zoom)) : whole();
  if (kind) event.target.closest("button").ariaPressed = String(hidden.delete(Number(kind)) || !hidden.add(Number(kind)));
  redraw();
});
async function load() {
  const answer = await fetch(box.dataset.map, { credentials: "same-origin" }), found = await answer.json();
  if (answer.status === 202) {
    tip.textContent = found.problem ? box.dataset.failed + found.problem : box.dataset.making.replace("{n}", Math.round(found.done * 100));
    setTimeout(() => load().catch(() => {}), 700);
  } else if (tip.textContent) location.reload(); // now there are the lists below it, too
  else redraw([data, canvas.dataset.ready] = [found, found.dots.length]);
}
dark.addEventListener("change", () => redraw(sprites = []));
addEventListener("resize", resize);
resize();
load().catch(() => {});
