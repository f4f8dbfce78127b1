// A walk: images from low to high in one latent or code, the others near those of the image that is shown.
const STEPS = 9;
const walk = { images: [], along: null };

function steps(quantity) {
  if (quantity.kind === 'periodic') return Array.from({ length: STEPS }, (_, s) => -1 + (2 * s) / STEPS);
  const sorted = Float32Array.from(quantity.values.filter((_, i) => isShown(i))).sort();
  if (quantity.axis && quantity.axis.at.length && quantity.axis.at.length <= 12) {
    return quantity.axis.at.filter((z) => sorted.some((value) => same(value, z)));
  }
  // Nearly all of its range, but not its last few images.
  return Array.from({ length: STEPS }, (_, s) => sorted[Math.round((0.02 + (0.96 * s) / (STEPS - 1)) * (sorted.length - 1))]);
}

// All other latents, or all other codes.
function others(k) {
  const isCode = quantities[k].kind === 'code';
  const alike = quantities.filter((one, j) => j !== k && (one.kind === 'code') === isCode && !one.held && one.label !== 'environment');
  return alike.map((one) => ({ ...one, spread: spread(one.values) }));
}

const gap = (quantity, a, b) => (quantity.kind === 'code' ? Math.abs(a - b)
  : quantity.kind === 'categorical' ? (same(a, b) ? 0 : 4) : apart(quantity.axis, a, b));

function findWalk() {
  const asked = byId('along').value;
  if (asked in TOGETHER) {
    const mine = further[asked][now.image], found = [];
    for (let i = 0; i < page.count; i++) if (further[asked][i] === mine) found.push(i);
    const order = further[TOGETHER[asked]] || numbers;
    return found.sort((a, b) => order[a] - order[b]);
  }
  const k = Number(asked), quantity = quantities[k], rest = others(k), wide = spread(quantity.values), found = [];
  // Each image is a compromise: near its step, which counts three times, and like the shown image in all else.
  const aside = (one, i) => (gap(one, one.values[i], one.values[now.image]) / one.spread) ** 2;
  const base = (i) => rest.reduce((sum, one) => sum + aside(one, i), 0) / Math.max(1, rest.length);
  const bases = Float64Array.from({ length: page.count }, (_, i) => base(i));
  for (const z of steps(quantity)) {
    const cost = (j) => bases[j] + ((3 * gap(quantity, quantity.values[j], z)) / wide) ** 2;
    const [i] = least((j) => (found.includes(j) ? Infinity : cost(j)), 1);
    if (i !== undefined && !found.includes(i)) found.push(i);
  }
  // Where images are few, one may be nearer to the next step.
  return found.sort((a, b) => quantity.values[a] - quantity.values[b]);
}

function drawWalk() {
  if (!byId('along').value) return;
  const asked = byId('along').value, place = TOGETHER[asked], quantity = quantities[asked];
  // Who goes from image to image of a walk stays on it.
  if (walk.along !== asked || !walk.images.includes(now.image)) walk.images = findWalk();
  walk.along = asked;
  const member = (i, at) => `${place} ${further[place] ? further[place][i] : at}`;
  const captions = walk.images.map(place ? member : (i) => (quantity.kind === 'categorical' ? say(quantity, i) : `${quantity.label} ${say(quantity, i)}`));
  strip(byId('walk'), walk.images, captions);
  const kind = quantity && quantity.kind === 'code' ? 'codes' : 'latents';
  const what = place ? `The ${place}s of the ${asked} that the image is of.`
    : `${quantity.kind === 'categorical' ? `An image of each ${quantity.label}` : `Images from low to high in ${quantity.label}`}, `
      + `all other ${kind} near those of the image that was shown.`;
  byId('walk-words').textContent = byId('cloud').hidden ? what : `${what} In the cloud a line joins them.`;
}
