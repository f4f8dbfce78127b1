// Rows of images: one tab stop each, arrow keys go from image to image, Enter shows one.
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Several buttons that are one tab stop; `next` says where a key leads from place i, or -1.
function rove(buttons, next) {
  buttons.forEach((button, i) => {
    button.tabIndex = i ? -1 : 0;
    button.onfocus = () => buttons.forEach((other) => { other.tabIndex = other === button ? 0 : -1; });
    button.onkeydown = (event) => {
      const to = next(event.key, i);
      if (to < 0 || to >= buttons.length) return;
      event.preventDefault();
      buttons[to].focus();
    };
  });
}

const alongRow = (count) => (key, i) => ({ ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: count - 1 })[key] ?? -1;

function strip(box, images, captions) {
  const focused = [...box.children].indexOf(document.activeElement);
  const buttons = images.map((i, at) => {
    const button = element('button', undefined, i === now.image ? 'here' : ''), canvas = element('canvas');
    button.setAttribute('aria-label', `${named(i)}, ${captions[at]}`);
    if (i === now.image) button.setAttribute('aria-current', 'true');
    button.title = named(i);
    paint(canvas, i);
    button.append(canvas, element('span', captions[at]));
    button.onclick = () => goTo(i);
    return button;
  });
  rove(buttons, alongRow(buttons.length));
  box.replaceChildren(...buttons);
  // A strip that is drawn anew keeps the focus where it was.
  if (focused >= 0 && buttons.length) buttons[Math.min(focused, buttons.length - 1)].focus({ preventScroll: true });
}

function option(select, value, text) {
  const made = element('option', text);
  made.value = value;
  select.append(made);
}
