// What all parts of the page are built with. Text from the plan only ever becomes text nodes and attributes.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else
      element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined) element.append(child);
  return element;
}
const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const shorten = (text, most) =>
    (text.length <= most ? text : text.slice(0, Math.ceil(most / 2) - 1) + '…' + text.slice(text.length - Math.floor(most / 2)));

let sections = 0;
// A part of the page with a heading, named by it.
function section(title, ...children) {
  const id = 'part' + ++sections;
  return html('section', {'aria-labelledby': id}, html('h2', {id}, title), ...children);
}

const colors = new Map();  // of the theme, as pictures have asked for them
function color(name) {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim());
  return colors.get(name);
}
const DEVICE_COLORS = 8;
const deviceColor = index => 'device' + (index % DEVICE_COLORS);

function legend(entries) {
  return html(
      'ul', {class: 'legend'},
      entries.map(
          ([name, text]) =>
              html('li', {}, html('span', {class: 'key', style: `background: var(--${name})`, 'aria-hidden': 'true'}), text)));
}

// A box beside the pointer, or beside what has the focus.
const tip = html('div', {id: 'tip', role: 'status', 'aria-live': 'polite', hidden: true});
function showTip(lines, x, y) {
  tip.replaceChildren(...lines.map((line, i) => html(i === 0 ? 'strong' : 'div', {}, line)));
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 8)) + 'px';
  tip.style.top = Math.max(4, y + 18 + height > innerHeight ? y - height - 12 : y + 18) + 'px';
}
function hideTip() { tip.hidden = true; }
// Gives an element its tip, for pointers and for the keyboard.
function withTip(element, lines) {
  element.addEventListener('pointermove', e => showTip(lines(), e.clientX, e.clientY));
  element.addEventListener('pointerleave', hideTip);
  element.addEventListener('focus', () => {
    if (!element.matches(':focus-visible')) return;
    const box = element.getBoundingClientRect();
    showTip(lines(), box.left, box.bottom - 16);
  });
  element.addEventListener('blur', hideTip);
  return element;
}

// A choice of one of several, as a labelled list.
function choice(label, names, onChange) {
  const select = html('select', {onchange: () => onChange(select.selectedIndex)}, names.map(name => html('option', {}, name)));
  return html('label', {class: 'choice'}, label + ' ', select);
}
