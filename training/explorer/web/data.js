// What the page shows: images in sheets, latents from -1 to 1, codes; and how far images are from one another.
const page = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);

function unpack(text, Kind) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return new Kind(bytes.buffer);
}

// Column k of a table that is stored row by row.
const column = (table, k, width) => Float32Array.from({ length: page.count }, (_, i) => table[i * width + k]);

const axes = page.axes;
const numbers = unpack(page.numbers, Int32Array);
const table = unpack(page.latents, Float32Array);
const latents = axes.map((_, k) => column(table, k, axes.length));
const codeNames = page.codes ? page.codes.names : [];
const codeTable = page.codes ? unpack(page.codes.values, Float32Array) : null;
const codes = codeNames.map((_, k) => column(codeTable, k, codeNames.length));
const further = Object.fromEntries(Object.entries(page.columns).map(([name, text]) => [name, unpack(text, Float64Array)]));
const moving = axes.map((_, k) => k).filter((k) => !axes[k].held);
const ordered = moving.filter((k) => axes[k].kind !== 'categorical');

// Images that belong together, and what tells each of them from the others.
const TOGETHER = { sequence: 'frame', instance: 'view' };

// What the page is showing now: where the sliders stand, and the image nearest to that.
const now = { target: axes.map((axis, k) => (axis.held ? latents[k][0] : start(axis))), image: 0, environment: -1 };

function start(axis) {
  if (!axis.at.length) return 0;
  return axis.kind === 'categorical' ? axis.at[0] : axis.at[(axis.at.length - 1) >> 1];
}

// A number with three digits, as short as it can be; a minus sign as wide as a plus sign.
function short(value) {
  const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));
  return text.replace('-', '−');
}

// The place of a listed value, of which there is one nearest to z.
function place(axis, z) {
  let best = 0;
  axis.at.forEach((at, i) => { if (Math.abs(at - z) < Math.abs(axis.at[best] - z)) best = i; });
  return best;
}

// A latent in scene units: the listed value, or low + (z + 1) / 2 · (high - low).
function words(axis, z) {
  const value = axis.at.length ? axis.values[place(axis, z)] : axis.low + ((z + 1) / 2) * (axis.high - axis.low);
  return typeof value === 'string' ? value : short(value);
}

// |a - b|, the shorter way round on a circle.
function apart(axis, a, b) {
  const d = Math.abs(a - b);
  return axis.kind === 'periodic' ? Math.min(d, 2 - d) : d;
}

const same = (a, b) => Math.abs(a - b) < 1e-4;

// The square of the distance of an image from latents. Ordered ones together are at most 4 d apart, so that an image
// of another category always comes after those of the right one.
function distance(i, target) {
  let sum = 0;
  for (const k of moving) {
    if (axes[k].kind === 'categorical') sum += same(latents[k][i], target[k]) ? 0 : 4 * axes.length + 1;
    else sum += apart(axes[k], latents[k][i], target[k]) ** 2;
  }
  return sum;
}

const isShown = (i) => now.environment < 0 || further.environment[i] === now.environment;

// The images with the least costs, the nearest first; of equal ones the first in the dataset.
function least(cost, count) {
  const found = [];
  for (let i = 0; i < page.count; i++) {
    if (!isShown(i)) continue;
    const value = cost(i);
    if (found.length === count && value >= found[count - 1][0]) continue;
    let at = found.length;
    while (at > 0 && found[at - 1][0] > value) at--;
    found.splice(at, 0, [value, i]);
    if (found.length > count) found.pop();
  }
  return found.map(([, i]) => i);
}

function spread(values) {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  return Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length) || 1;
}

const codeSpreads = codes.map(spread);
const codeDistance = (i, j) => codes.reduce((sum, code, k) => sum + ((code[i] - code[j]) / codeSpreads[k]) ** 2, 0);

// The place of an image on the page, in words.
function named(i) {
  const parts = [`image ${numbers[i].toLocaleString('en')}`];
  for (const name of ['sequence', 'frame', 'instance', 'view']) if (further[name]) parts.push(`${name} ${further[name][i]}`);
  if (further.environment) parts.push(page.environments[further.environment[i]]);
  return parts.join(', ');
}

// Sheets are read when the first of their images is painted, and canvases painted when their sheet is there.
const sheets = page.sheets.map(() => null);

function paint(canvas, i) {
  const per = page.side * page.side, number = Math.floor(i / per), at = i % per;
  canvas.dataset.image = numbers[i];
  if (!sheets[number]) {
    const image = new Image();
    sheets[number] = new Promise((done) => { image.onload = () => done(image); });
    image.src = page.sheets[number];
  }
  sheets[number].then((image) => {
    // By then another image may be wanted here.
    if (canvas.dataset.image !== String(numbers[i])) return;
    canvas.width = canvas.height = page.size;
    const x = (at % page.side) * page.size, y = Math.floor(at / page.side) * page.size;
    canvas.getContext('2d').drawImage(image, x, y, page.size, page.size, 0, 0, page.size, page.size);
    canvas.dataset.painted = numbers[i];
  });
}
