// Everything together: what happens when another image is shown, and the choices that stand above it.
function showNearest() {
  show(least((i) => distance(i, now.target), 1)[0]);
}

// Show an image, and move all latents to where it lies.
function goTo(i) {
  now.target = axes.map((_, k) => latents[k][i]);
  show(i);
}

// How far an image is from the latents that are asked for, in words: categories have no distance.
function away(i) {
  const categories = moving.filter((k) => axes[k].kind === 'categorical');
  const other = categories.filter((k) => !same(latents[k][i], now.target[k])).map((k) => `other ${axes[k].name}`);
  if (other.length) return other.join(', ');
  return ordered.length ? `${short(Math.sqrt(distance(i, now.target)))} away` : named(i);
}

function show(i) {
  now.image = i;
  const all = moving.map((k) => `${axes[k].name} ${words(axes[k], latents[k][i])}`);
  paint(byId('picture'), i);
  byId('picture').setAttribute('aria-label', [named(i), ...all].join(', '));
  const far = distance(i, now.target) < 1e-12 ? 'at these latents' : away(i).replace(/away$/, 'away from these latents');
  byId('caption').replaceChildren(element('b', named(i)), element('span', ordered.length ? far : `${i + 1} of ${page.count}`));
  drawSliders();
  later();
}

// Strips and the cloud follow once in each frame of the screen, however fast a slider moves.
let waiting = false;
function later() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawNearest(); drawWalk(); drawOver(); });
}

function drawNearest() {
  const byCodes = byId('space').value === 'codes';
  const cost = byCodes ? (i) => codeDistance(i, now.image) : (i) => distance(i, now.target);
  const found = least(cost, 9).filter((i) => i !== now.image).slice(0, 8);
  const far = (i) => `${short(Math.sqrt(codeDistance(i, now.image) / codes.length))} away`;
  strip(byId('nearest'), found, found.map(byCodes ? far : away));
}

function goBy(steps) {
  let i = now.image;
  do i = (i + steps + page.count) % page.count; while (!isShown(i) && i !== now.image);
  goTo(i);
}

function goAnywhere() {
  const shown = Array.from(numbers.keys()).filter(isShown);
  goTo(shown[Math.floor(Math.random() * shown.length)]);
}

function fillChoices() {
  const together = Object.keys(TOGETHER).filter((name) => further[name]);
  const free = quantities.map((one, k) => [one, k]).filter(([one]) => !one.held);
  for (const id of ['x', 'y', 'colour', 'along']) {
    const select = byId(id);
    if (id === 'colour') option(select, '', 'none');
    if (id === 'along') for (const name of together) option(select, name, name === 'sequence' ? 'its sequence' : 'its views');
    for (const [one, k] of free) if (id !== 'along' || one.label !== 'environment') option(select, k, one.label);
  }
  // Of a run, the latent that is best found, over its code; else the first two latents, those with an order before others.
  const own = page.codes ? moving.filter((k) => page.codes.matched[k] >= 0) : [];
  const strength = (k) => page.codes.strength[k][page.codes.matched[k]];
  const best = own.reduce((a, b) => (a < 0 || strength(b) > strength(a) ? b : a), -1);
  const isCategory = ([one]) => one.kind === 'categorical', rather = [...free].sort((a, b) => isCategory(a) - isCategory(b));
  const [first, second] = rather.length > 1 ? [rather[0][1], rather[1][1]] : [free.length ? free[0][1] : ''];
  byId('x').value = best < 0 ? first : best;
  byId('y').value = best < 0 ? second ?? first : axes.length + page.codes.matched[best];
  if (!together.length) byId('along').value = best < 0 ? first : byId('y').value;
  byId('cloud').hidden = free.length < 2;
  byId('walks').hidden = !free.length && !together.length;
  if (codes.length) {
    if (moving.length) option(byId('space'), 'latents', 'latents');
    option(byId('space'), 'codes', 'codes');
    byId('nearest-by').hidden = !moving.length;
    byId('space').onchange = drawNearest;
  }
  for (const id of ['x', 'y', 'colour']) byId(id).onchange = () => { drawCloud(); markTable(); };
  byId('along').onchange = () => { drawWalk(); drawOver(); };
  byId('environments').hidden = !page.environments.length;
  option(byId('environment'), -1, 'all');
  page.environments.forEach((name, k) => option(byId('environment'), k, name));
  byId('environment').onchange = (event) => {
    now.environment = Number(event.target.value);
    walk.images = [];
    showNearest();
    drawCloud();
  };
}

byId('near').hidden = page.count < 2;
fillChoices();
buildSliders();
buildTable();
byId('before').onclick = () => goBy(-1);
byId('after').onclick = () => goBy(1);
byId('any').onclick = goAnywhere;
byId('centre').onclick = () => { now.target = axes.map((axis, k) => (axis.held ? latents[k][0] : start(axis))); showNearest(); };
document.body.classList.toggle('sharp', page.sharp);
if (moving.length) showNearest();
else show(0);
if (!byId('cloud').hidden) {
  listen();
  new ResizeObserver(drawCloud).observe(byId('plot'));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCloud);
}
