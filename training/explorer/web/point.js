// What is pointed at in the cloud, by a pointer or by arrow keys: its image beside it, and Enter or a click goes there.
function nearestDot(u, v, reach) {
  let best = -1, least = reach * reach;
  for (let i = 0; i < page.count; i++) {
    if (!isShown(i)) continue;
    const d = (cloud.u[i] - u) ** 2 + (cloud.v[i] - v) ** 2;
    if (d < least) { least = d; best = i; }
  }
  return best;
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// The next dot that way: near, and rather ahead than aside.
function nextDot(from, [dx, dy]) {
  let best = from, least = Infinity;
  for (let i = 0; i < page.count; i++) {
    if (i === from || !isShown(i)) continue;
    const du = cloud.u[i] - cloud.u[from], dv = cloud.v[i] - cloud.v[from];
    const ahead = du * dx + dv * dy, away = Math.abs(du * dy) + Math.abs(dv * dx);
    if (ahead < 0.5 || away > 2 * ahead) continue;
    const cost = ahead + 2 * away;
    if (cost < least) { least = cost; best = i; }
  }
  return best;
}

function pointAt(i, aloud) {
  cloud.cursor = i;
  const tip = byId('tip');
  tip.hidden = i < 0;
  if (i >= 0) {
    const lines = [cloud.x, cloud.y, quantities[byId('colour').value]].filter((one, k, all) => one && all.indexOf(one) === k);
    const texts = lines.map((quantity) => `${quantity.label} ${say(quantity, i)}`);
    paint(tip.querySelector('canvas'), i);
    const words = tip.querySelector('div');
    words.replaceChildren(element('b', named(i)), ...texts.map((text) => element('span', text)));
    // Beside the dot, on the side that has room.
    const { offsetWidth: wide, offsetHeight: tall } = tip;
    const right = cloud.u[i] + 14 + wide < cloud.width, left = right ? cloud.u[i] + 14 : cloud.u[i] - 14 - wide;
    tip.style.left = `${Math.max(0, Math.min(left, cloud.width - wide))}px`;
    tip.style.top = `${Math.max(0, Math.min(cloud.v[i] - tall / 2, cloud.height - tall))}px`;
    if (aloud) byId('said').textContent = [named(i), ...texts].join(', ');
  }
  drawOver();
}

function listen() {
  const over = byId('over');
  const at = (event, reach) => {
    const box = over.getBoundingClientRect();
    return nearestDot(event.clientX - box.left, event.clientY - box.top, reach);
  };
  over.onpointermove = (event) => { if (event.pointerType !== 'touch') pointAt(at(event, 24), false); };
  over.onpointerleave = () => { if (document.activeElement !== over) pointAt(-1, false); };
  over.onclick = (event) => {
    const found = at(event, 32);
    if (found >= 0) goTo(found);
    pointAt(found, false);
  };
  over.onfocus = () => { if (over.matches(':focus-visible')) pointAt(now.image, true); };
  over.onblur = () => pointAt(-1, false);
  over.onkeydown = (event) => {
    const from = cloud.cursor < 0 ? now.image : cloud.cursor;
    if (event.key in WAYS) pointAt(nextDot(from, WAYS[event.key]), true);
    else if (event.key === 'Enter' || event.key === ' ') goTo(from);
    else if (event.key === 'Escape') pointAt(-1, false);
    else return;
    event.preventDefault();
  };
}
