// Colours of dots, out of the page's own: from blue over violet to orange, round and back on a circle.
function theme() {
  const style = getComputedStyle(document.documentElement), found = {};
  for (const name of ['ink', 'soft', 'paper', 'card', 'rule', 'c0', 'c1', 'c2', 'c3']) {
    found[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return found;
}

const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function between(stops, t) {
  const place = Math.min(Math.max(t, 0), 1) * (stops.length - 1), first = Math.min(Math.floor(place), stops.length - 2);
  const [a, b] = [parts(stops[first]), parts(stops[first + 1])];
  return `rgb(${a.map((value, c) => Math.round(value + (place - first) * (b[c] - value))).join(' ')})`;
}

const ramp = (quantity, ink) => (quantity.kind === 'periodic'
  ? [ink.c0, ink.c3, ink.c1, ink.c2, ink.c0] : [ink.c0, ink.c3, ink.c1]);

// Image i → its colour.
function palette(quantity, ink) {
  if (quantity.kind === 'categorical') {
    const few = [ink.c0, ink.c1, ink.c2, ink.c3], { axis } = quantity, count = axis.at.length;
    const colours = axis.at.map((_, k) => (count <= 4 ? few[k] : between([...few, ink.soft], k / (count - 1))));
    return (i) => colours[place(axis, quantity.values[i])];
  }
  const stops = ramp(quantity, ink);
  const [low, high] = quantity.kind === 'periodic' ? [-1, 1] : extremes(quantity.values);
  return (i) => between(stops, (quantity.values[i] - low) / (high - low || 1));
}

function extremes(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}

function drawLegend(quantity, colours) {
  const box = byId('legend');
  box.replaceChildren();
  if (!quantity) return;
  box.append(element('span', quantity.label));
  if (quantity.kind === 'categorical') {
    const shown = new Map();
    for (let i = 0; i < page.count; i++) shown.set(place(quantity.axis, quantity.values[i]), i);
    for (const k of [...shown.keys()].sort((a, b) => a - b).slice(0, 12)) {
      const key = element('span'), dot = element('i');
      dot.style.background = colours(shown.get(k));
      key.append(dot, words(quantity.axis, quantity.axis.at[k]));
      box.append(key);
    }
    if (shown.size > 12) box.append(element('span', `and ${shown.size - 12} more`));
    return;
  }
  const round = quantity.kind === 'periodic', [low, high] = round ? [-1, 1] : extremes(quantity.values);
  const text = (z) => (quantity.axis ? words(quantity.axis, z) : short(z)), bar = element('i', undefined, 'ramp');
  bar.style.background = `linear-gradient(90deg, ${ramp(quantity, theme()).join(', ')})`;
  const scale = element('span');
  scale.append(text(low), bar, round ? short(quantity.axis.high) : text(high));
  box.append(scale);
}
