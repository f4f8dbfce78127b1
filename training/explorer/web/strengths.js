// The table of latents and codes: one tab stop, arrow keys go from cell to cell, Enter shows the cloud of a cell.
const cells = [];

function buildTable() {
  if (!codes.length || !moving.length) return;
  byId('strengths').hidden = false;
  byId('sides').classList.add('codes');
  const sheet = element('table', undefined, 'heat'), head = element('tr');
  head.append(element('td'), ...codeNames.map((name) => element('th', name)));
  sheet.append(head, ...moving.map(tableRow));
  rove(cells.map(({ button }) => button), (key, i) => {
    const wide = codes.length, across = i % wide;
    if (key === 'ArrowLeft') return across ? i - 1 : -1;
    if (key === 'ArrowRight') return across < wide - 1 ? i + 1 : -1;
    return { ArrowUp: i - wide, ArrowDown: i + wide, Home: i - across, End: i - across + wide - 1 }[key] ?? -1;
  });
  byId('table').append(sheet);
  if (page.codes.total > codes.length) {
    byId('table').after(element('p', `The ${codes.length} of ${page.codes.total} codes that say most about a latent.`, 'soft'));
  }
  markTable();
}

function tableRow(k) {
  const row = element('tr');
  row.append(element('th', axes[k].name));
  codeNames.forEach((name, j) => {
    const strength = page.codes.strength[k][j], cell = element('td', undefined, 'warm'), button = element('button', strength.toFixed(2));
    if (page.codes.matched[k] === j) cell.classList.add('match');
    cell.style.setProperty('--r', strength);
    button.setAttribute('aria-label', `${axes[k].name} and ${name}, ${strength.toFixed(2)}`);
    button.onclick = () => {
      byId('x').value = k;
      byId('y').value = axes.length + j;
      drawCloud();
      markTable();
    };
    cells.push({ button, cell, x: k, y: axes.length + j });
    cell.append(button);
    row.append(cell);
  });
  return row;
}

function markTable() {
  for (const { button, cell, x, y } of cells) {
    const isNow = Number(byId('x').value) === x && Number(byId('y').value) === y;
    cell.classList.toggle('now', isNow);
    button.setAttribute('aria-pressed', isNow);
  }
}
