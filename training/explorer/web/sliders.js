// One control for each latent that varies: a slider, which goes round if the latent does, or a choice of categories.
const controls = new Map();

function buildSliders() {
  const box = byId('sliders'), groups = new Map();
  for (const k of moving) {
    const { group } = axes[k];
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(k);
  }
  for (const [group, members] of groups) {
    const part = element(group ? 'fieldset' : 'div'), grid = element('div', undefined, 'group');
    if (group) part.append(element('legend', group));
    grid.append(...members.map(control));
    part.append(grid);
    box.append(part);
  }
  const held = axes.filter((axis) => axis.held).map((axis) => `${axis.name} ${words(axis, latents[axes.indexOf(axis)][0])}`);
  if (held.length) box.append(element('p', `Held: ${held.join(', ')}.`, 'soft held'));
  for (const id of ['centre', 'hint']) byId(id).hidden = !ordered.length;
}

function control(k) {
  const axis = axes[k], row = element('div', undefined, 'latent'), head = element('div');
  const label = element('label', axis.name), output = element('output');
  label.htmlFor = `latent-${k}`;
  head.append(label, output);
  const isChoice = axis.kind === 'categorical', input = element(isChoice ? 'select' : 'input');
  input.id = `latent-${k}`;
  const mark = element('span', undefined, 'mark');
  if (isChoice) {
    axis.values.forEach((value, i) => option(input, i, words(axis, axis.at[i])));
    input.onchange = () => move(k, axis.at[input.value]);
    row.append(head, input);
  } else {
    input.type = 'range';
    [input.min, input.max, input.step] = axis.at.length ? [0, axis.at.length - 1, 1] : [-1, 1, 0.01];
    input.oninput = () => move(k, axis.at.length ? axis.at[input.value] : Number(input.value));
    if (axis.kind === 'periodic') input.onkeydown = (event) => goRound(event, input);
    const track = element('div', undefined, 'track');
    track.append(input, mark);
    row.append(head, track);
  }
  controls.set(k, { input, output, mark });
  return row;
}

// On a circle the last place is next to the first.
function goRound(event, input) {
  const up = ['ArrowRight', 'ArrowUp'].includes(event.key), down = ['ArrowLeft', 'ArrowDown'].includes(event.key);
  if (!(up && input.value === input.max) && !(down && input.value === input.min)) return;
  event.preventDefault();
  // Without listed values both ends are the same place, so that one step goes beyond it.
  const step = Number(input.step) < 1 ? Number(input.step) : 0;
  input.value = up ? Number(input.min) + step : Number(input.max) - step;
  input.oninput();
}

function move(k, z) {
  now.target[k] = z;
  showNearest();
}

function drawSliders() {
  for (const [k, { input, output, mark }] of controls) {
    const axis = axes[k], z = now.target[k], own = latents[k][now.image];
    const asked = words(axis, z), image = words(axis, own);
    // A slider that stands there already is left alone: it has finer steps in the hand than in its value.
    const at = axis.at.length ? place(axis, z) : z;
    if (axis.kind === 'categorical' ? input.value !== String(at) : Math.abs(input.value - at) > 0.006) input.value = at;
    // A choice shows itself what is asked.
    output.replaceChildren(...(axis.kind === 'categorical' ? [] : [element('b', asked)]));
    if (asked !== image) output.append(element('span', image));
    if (axis.kind === 'categorical') continue;
    input.setAttribute('aria-valuetext', asked === image ? asked : `${asked}, image ${image}`);
    const part = axis.at.length ? place(axis, own) / Math.max(1, axis.at.length - 1) : (own + 1) / 2;
    // The thumb's middle goes from 8 pixels after the start to 8 before the end.
    mark.style.left = `calc(8px + ${part} * (100% - 16px))`;
  }
}
