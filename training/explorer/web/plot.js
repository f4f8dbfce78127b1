// The cloud: any latent or code over any other, on a canvas with a second one above it for what is pointed at.
const quantities = [
  ...axes.map((axis, k) => ({ label: axis.name, values: latents[k], axis, kind: axis.kind, held: axis.held })),
  ...codes.map((values, k) => ({ label: codeNames[k], values, axis: null, kind: 'code', held: false })),
];
if (further.environment) {
  const kinds = page.environments, at = kinds.map((_, i) => i);
  const axis = { name: 'environment', kind: 'categorical', values: kinds, at, held: false };
  quantities.push({ label: 'environment', values: Float32Array.from(further.environment), axis, kind: 'categorical' });
}
const say = (quantity, i) => (quantity.axis ? words(quantity.axis, quantity.values[i]) : short(quantity.values[i]));
const FONT = '12px system-ui, sans-serif';
const ROOM = { left: 54, right: 14, top: 12, bottom: 40 };
const cloud = { x: null, y: null, u: [], v: [], cursor: -1, width: 0, height: 0 };

function range(quantity) {
  let low = Infinity, high = -Infinity;
  for (const value of quantity.values) { if (value < low) low = value; if (value > high) high = value; }
  const gap = quantity.kind === 'categorical' ? 0.5 * spacing(quantity) : (high - low) * 0.03;
  return [low - (gap || 1), high + (gap || 1)];
}

const spacing = ({ axis }) => (axis && axis.at.length > 1 ? axis.at[1] - axis.at[0] : 0);

// Dots of one category, or of few listed values, are moved aside a little, always by the same part.
function aside(quantity, i, turn) {
  const few = quantity.axis && quantity.axis.at.length && (quantity.kind === 'categorical' || quantity.axis.at.length <= 12);
  return few ? (((i + 1) * turn) % 1 - 0.5) * 0.6 * spacing(quantity) : 0;
}

function layOut() {
  const box = byId('plot').getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  cloud.width = box.width;
  cloud.height = byId('dots').getBoundingClientRect().height;
  for (const canvas of [byId('dots'), byId('over')]) {
    canvas.width = Math.round(cloud.width * ratio);
    canvas.height = Math.round(cloud.height * ratio);
    canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const x = quantities[byId('x').value], y = quantities[byId('y').value];
  const [left, right] = range(x), [low, high] = range(y);
  Object.assign(cloud, { x, y });
  // Room for the longest number beside the axis.
  const pen = byId('dots').getContext('2d');
  pen.font = FONT;
  ROOM.left = 34 + Math.max(...ticks(y, 0, 1).map(([, text]) => pen.measureText(text).width));
  const wide = cloud.width - ROOM.left - ROOM.right, tall = cloud.height - ROOM.top - ROOM.bottom;
  cloud.u = Float32Array.from(x.values, (a, i) => ROOM.left + ((a + aside(x, i, 0.618034) - left) / (right - left)) * wide);
  cloud.v = Float32Array.from(y.values, (a, i) => ROOM.top + (1 - (a + aside(y, i, 0.754878) - low) / (high - low)) * tall);
}

function drawCloud() {
  layOut();
  const pen = byId('dots').getContext('2d'), ink = theme();
  const colour = quantities[byId('colour').value], colours = colour ? palette(colour, ink) : () => ink.c0;
  pen.clearRect(0, 0, cloud.width, cloud.height);
  drawAxes(pen, ink);
  const radius = page.count > 4000 ? 1.8 : page.count > 800 ? 2.4 : 3.2;
  for (let i = 0; i < page.count; i++) {
    if (!isShown(i)) continue;
    pen.globalAlpha = colour ? 0.8 : 0.5;
    pen.fillStyle = colours(i);
    pen.beginPath();
    pen.arc(cloud.u[i], cloud.v[i], radius, 0, 7);
    pen.fill();
  }
  pen.globalAlpha = 1;
  drawLegend(colour, colours);
  drawOver();
}

function drawAxes(pen, ink) {
  const { width, height } = cloud, right = width - ROOM.right, bottom = height - ROOM.bottom;
  pen.strokeStyle = ink.rule;
  pen.strokeRect(ROOM.left + 0.5, ROOM.top + 0.5, right - ROOM.left, bottom - ROOM.top);
  pen.fillStyle = ink.soft;
  pen.font = FONT;
  for (const [at, text] of ticks(cloud.x, ROOM.left, right)) {
    pen.textAlign = at > right - 20 ? 'right' : at < ROOM.left + 12 ? 'left' : 'center';
    pen.fillText(text, at, bottom + 15);
  }
  pen.textAlign = 'right';
  for (const [at, text] of ticks(cloud.y, bottom, ROOM.top)) pen.fillText(text, ROOM.left - 6, at + 4);
  pen.fillStyle = ink.ink;
  pen.textAlign = 'center';
  pen.fillText(cloud.x.label, (ROOM.left + right) / 2, height - 8, right - ROOM.left);
  pen.save();
  pen.translate(13, (ROOM.top + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(cloud.y.label, 0, 0, bottom - ROOM.top);
  pen.restore();
}

// Where numbers stand on an axis: at every category if they are few, else at round places of what is shown.
function ticks(quantity, from, to) {
  const [low, high] = range(quantity), at = (z) => from + ((z - low) / (high - low)) * (to - from);
  const { axis } = quantity;
  if (axis && axis.kind === 'categorical') {
    const every = Math.ceil(axis.at.length / 6);
    return axis.at.filter((z, i) => i % every === 0 && z > low && z < high).map((z) => [at(z), words(axis, z).slice(0, 9)]);
  }
  // In scene units, which go the same way as latents.
  const scene = (z) => (axis ? axis.low + ((z + 1) / 2) * (axis.high - axis.low) : z);
  const back = (s) => (axis ? ((s - axis.low) / (axis.high - axis.low || 1)) * 2 - 1 : s);
  const [first, last] = [scene(low), scene(high)], rough = (last - first) / 6, ten = 10 ** Math.floor(Math.log10(rough));
  const gap = ten * [1, 2, 2.5, 5, 10].find((m) => m * ten >= rough);
  const found = [];
  for (let n = Math.ceil(first / gap); n * gap <= last; n++) found.push([at(back(n * gap)), short(n * gap)]);
  return found;
}

function drawOver() {
  // Before the page is laid out there is nothing to draw on.
  if (!cloud.x) return;
  const pen = byId('over').getContext('2d'), ink = theme();
  pen.clearRect(0, 0, cloud.width, cloud.height);
  pen.lineWidth = 1.5;
  if (walk.images.length > 1) {
    pen.strokeStyle = ink.ink;
    pen.globalAlpha = 0.55;
    pen.beginPath();
    walk.images.forEach((i) => pen.lineTo(cloud.u[i], cloud.v[i]));
    pen.stroke();
    pen.globalAlpha = 1;
    for (const i of walk.images) ring(pen, i, 3.5, ink.paper, ink.ink);
  }
  if (page.count) ring(pen, now.image, 6, ink.c1, ink.paper);
  if (cloud.cursor >= 0) ring(pen, cloud.cursor, 8, null, ink.ink);
  const label = `${cloud.y.label} over ${cloud.x.label}, ${page.count} images. Arrows go to the next one, Enter shows it.`;
  byId('over').setAttribute('aria-label', label);
}

function ring(pen, i, radius, fill, stroke) {
  pen.beginPath();
  pen.arc(cloud.u[i], cloud.v[i], radius, 0, 7);
  if (fill) { pen.fillStyle = fill; pen.fill(); }
  pen.strokeStyle = stroke;
  pen.stroke();
}
