// A canvas over time that is zoomed and moved: by wheel, drag and buttons, and by the keys + - 0 and the arrows. Several that show the same
// time share a view.

// Text as long as there is room for it, its middle left out where there is too little.
function fitted(context, text, width) {
  let letters = text.length;
  const full = context.measureText(text).width;
  if (full > width) letters = Math.floor(letters * width / full);
  while (letters > 2 && context.measureText(shorten(text, letters)).width > width) --letters;
  return letters > 2 ? shorten(text, letters) : '';
}

class TimeView {
  constructor(seconds) { Object.assign(this, {all: seconds, begin: 0, end: seconds, pictures: []}); }
  set(begin, end) {
    const least = this.all * 1e-5, width = Math.min(this.all, Math.max(least, end - begin));
    this.begin = Math.min(Math.max(0, begin), this.all - width);
    this.end = this.begin + width;
    for (const picture of this.pictures) picture.redraw();
  }
  zoom(factor, at = (this.begin + this.end) / 2) { this.set(at - (at - this.begin) * factor, at + (this.end - at) * factor); }
  move(part) {
    const by = (this.end - this.begin) * part;
    this.set(this.begin + by, this.end + by);
  }
}

class Picture {
  // `draw(context, this)` paints; `find(x, y)` gives the item at a place, `tell(item)` its lines of text, `next(item, by)` the one after.
  constructor(view, label, {left, height, draw, find, tell, next}) {
    Object.assign(this, {view, left, height, draw, find, tell, next, selected: null});
    this.canvas = html('canvas', {role: 'img', tabindex: '0', 'aria-label': label + keys});
    this.said = html('p', {class: 'said', role: 'status', 'aria-live': 'polite'});
    const button = (text, name, act) => html('button', {type: 'button', 'aria-label': name, title: name, onclick: act}, text);
    this.element = html(
        'div', {class: 'picture'},
        html(
            'div', {class: 'buttons'}, button('+', 'Zoom in', () => view.zoom(0.5)), button('−', 'Zoom out', () => view.zoom(2)),
            button('←', 'Earlier', () => view.move(-0.25)), button('→', 'Later', () => view.move(0.25)),
            button('All', 'Show all', () => view.set(0, view.all))),
        this.canvas, this.said);
    view.pictures.push(this);
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  get width() { return this.canvas.clientWidth; }
  x(seconds) { return this.left + (seconds - this.view.begin) / (this.view.end - this.view.begin) * (this.width - this.left); }
  seconds(x) { return this.view.begin + (x - this.left) / (this.width - this.left) * (this.view.end - this.view.begin); }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  paint() {
    const ratio = devicePixelRatio || 1, width = this.width;
    if (!width) return;
    this.canvas.style.height = this.height + 'px';
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    const context = this.canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    this.draw(context, this);
    this.axis(context);
  }

  // Times at round distances along the lower edge.
  axis(context) {
    const span = this.view.end - this.view.begin, about = span / Math.max(2, (this.width - this.left) / 110);
    const power = 10 ** Math.floor(Math.log10(about)), step = [1, 2, 5, 10].find(m => m * power >= about) * power;
    context.fillStyle = color('quiet');
    context.strokeStyle = color('line');
    context.textAlign = 'center';
    for (let t = Math.ceil(this.view.begin / step) * step; t <= this.view.end; t += step) {
      const x = this.x(t);
      context.beginPath();
      context.moveTo(x, this.height - 16);
      context.lineTo(x, this.height - 12);
      context.stroke();
      if (x < this.width - 24) context.fillText(secondsText(t), Math.max(x, this.left + 6), this.height - 6);
    }
  }

  select(item) {
    this.selected = item;
    this.said.textContent = item ? this.tell(item).join(', ') : '';
    this.redraw();
  }

  listen() {
    const {canvas, view} = this;
    let drag = null;
    canvas.addEventListener('wheel', e => {
      if (!e.ctrlKey && Math.abs(e.deltaX) > Math.abs(e.deltaY))
        view.move(e.deltaX / 1000);
      else if (e.ctrlKey || e.altKey || document.activeElement === canvas)
        view.zoom(Math.exp(e.deltaY / 300), this.seconds(e.offsetX));
      else
        return;
      e.preventDefault();
    }, {passive: false});
    canvas.addEventListener('pointerdown', e => {
      drag = {x: e.clientX, begin: view.begin, end: view.end, moved: false};
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener('pointermove', e => {
      if (drag) {
        const by = (drag.x - e.clientX) / (this.width - this.left) * (drag.end - drag.begin);
        drag.moved ||= Math.abs(drag.x - e.clientX) > 3;
        if (drag.moved) view.set(drag.begin + by, drag.end + by);
        return hideTip();
      }
      const item = this.find(e.offsetX, e.offsetY);
      item ? showTip(this.tell(item), e.clientX, e.clientY) : hideTip();
    });
    canvas.addEventListener('pointerup', e => {
      if (drag && !drag.moved) this.select(this.find(e.offsetX, e.offsetY));
      drag = null;
    });
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('keydown', e => {
      const act = {
        '+': () => view.zoom(0.5),
        '=': () => view.zoom(0.5),
        '-': () => view.zoom(2),
        '0': () => view.set(0, view.all),
        ArrowLeft: () => view.move(-0.2),
        ArrowRight: () => view.move(0.2),
        ArrowDown: () => this.select(this.next(this.selected, 1)),
        ArrowUp: () => this.select(this.next(this.selected, -1)),
        Escape: () => this.select(null),
      }[e.key];
      if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
      act();
      e.preventDefault();
    });
  }
}
const keys = '. Keys: plus and minus zoom, left and right move, up and down go through what is shown.';
