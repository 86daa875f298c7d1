// Which devices have what of the model: a column for each class of devices with its modules, which open, and lines for what goes in,
// between and out.

const BOX = {
  width: 216,
  height: 38,
  gap: 18,
  head: 26,
  headGap: 8
};
const COLUMN_GAP = 56, BUS = 44, MOST_BOXES = 240, BUS_TEXT = 72;
// Lines of several buses stand side by side.
const shifted = (x, buses, i) => p => x(p) + 9 * (i - (buses.length - 1) / 2);

// What a module does, so that repeated ones are known.
function signature(module, program) {
  if (module.signature) return module.signature;
  const ops = module.steps.map(s => program.data.steps[s].op).join(',');
  return (module.signature = ops + '(' + module.sorted.map(c => signature(c, program)).join(';') + ')');
}

// Children of a module in order; three or more in a row that do the same become one, which opens.
function childrenOf(module, program) {
  if (module.runs) return module.runs;
  const runs = [];
  for (const child of module.sorted) {
    const last = runs.at(-1);
    if (last && signature(last[0], program) === signature(child, program))
      last.push(child);
    else
      runs.push([child]);
  }
  module.runs = runs.flatMap(run => (run.length > 2 && run[0].children.size ? [foldedRun(module, run)] : run));
  return module.runs;
}

function foldedRun(module, run) {
  const folded = new Module(`${run[0].name} … ${run.at(-1).name}`, `${module.path}/${run[0].name}…${run.at(-1).name}`);
  folded.alike = run.length;
  for (const child of run) {
    folded.children.set(child.name, child);
    folded.order = Math.min(folded.order, child.order);
    for (const part of ['seconds', 'flops', 'bytes', 'count']) folded[part] += child[part];
  }
  folded.runs = run;
  return folded;
}

const opens = module => module.children.size > 0 || module.steps.length > 0;

// The boxes of a column as they stand one below the other.
function boxesOf(program, open) {
  const boxes = [];
  const add = (module, depth) => {
    for (const child of childrenOf(module, program)) {
      const isOpen = open.has(child.path);
      boxes.push({module: child, depth, open: isOpen});
      if (!isOpen || boxes.length > MOST_BOXES) continue;
      for (const s of child.steps) boxes.push({step: s, depth: depth + 1});
      add(child, depth + 1);
    }
  };
  add(program.root, 0);
  return boxes.slice(0, MOST_BOXES);
}

// Modules that are open at first: those that hold most of the time, as long as there are few boxes.
function firstOpen(program) {
  const open = new Set();
  for (let turn = 0; turn < 4; ++turn) {
    const closed = boxesOf(program, open).filter(b => b.module && !b.open);
    const large = closed.find(b => b.module.children.size && !b.module.alike && b.module.seconds > 0.5 * program.root.seconds);
    if (closed.length > 6 || !large) break;
    open.add(large.module.path);
  }
  return open;
}

// Bytes that go from one box to another, forward in the order of the boxes.
function edgesOf(program, boxes) {
  const {data, roots} = program, boxOf = new Map(), ofModule = new Map();
  boxes.forEach((box, i) => {
    if (box.step !== undefined)
      boxOf.set(box.step, i);
    else if (!box.open)
      for (const m of box.module.alike ? box.module.runs : [box.module]) ofModule.set(m, i);
  });
  data.steps.forEach((step, s) => {
    if (boxOf.has(s)) return;
    const module = program.modules[s].find(m => ofModule.has(m));
    if (module) boxOf.set(s, ofModule.get(module));
  });
  const writer = new Map(), edges = new Map();
  data.steps.forEach((step, s) => {
    for (const b of step.inputs) {
      if (b < 0) continue;
      const from = boxOf.get(writer.get(b) ?? writer.get(roots[b])), to = boxOf.get(s);
      if (from === undefined || to === undefined || from >= to) continue;
      const key = from * MOST_BOXES + to;
      if (!edges.has(key)) edges.set(key, {from, to, values: new Map()});
      edges.get(key).values.set(b, data.buffers[b]);
    }
    for (const b of step.outputs)
      if (b >= 0) writer.set(b, s).set(roots[b], s);
  });
  return [...edges.values()].map(e => ({...e, bytes: [...e.values.values()].reduce((sum, v) => sum + v.bytes, 0)}));
}

function moduleLines(model, program, module) {
  return [
    module.path.replaceAll('/', '.'), module.alike ? `${module.alike} that do the same` : null,
    `${secondsText(module.seconds)}, ${shareText(module.seconds / Math.max(1e-12, program.root.seconds))} of the kernels' time`,
    module.flops ? countText(module.flops) + 'FLOP' : null, `${module.count} steps of the plan`, `on ${program.names}`
  ].filter(Boolean);
}

class Placement {
  constructor(model) {
    this.model = model;
    this.open = model.programs.map(firstOpen);
    this.element = html('div', {class: 'scroll placement', tabindex: '0', role: 'region', 'aria-label': 'Placement graph'});
    this.draw();
  }

  toggle(p, path) {
    this.open[p].has(path) ? this.open[p].delete(path) : this.open[p].add(path);
    this.draw();
    this.element.querySelector(`[data-key="${CSS.escape(p + path)}"]`)?.focus();
  }

  draw() {
    const {model} = this, columns = model.programs.map((program, p) => this.column(program, p));
    const inputs = this.inputs(), outputs = this.buses(), x = p => p * (BOX.width + COLUMN_GAP) + 14;
    const ends =
        [...inputs, ...outputs].map(bus => x(Math.min(...bus.members)) + BOX.width / 2 + 24 + 7 * Math.min(bus.text.length, BUS_TEXT));
    const width = Math.max(columns.length * (BOX.width + COLUMN_GAP), ...ends);
    const top = 10 + inputs.length * BUS, tall = Math.max(...columns.map(c => c.height));
    const height = top + tall + 36 + outputs.length * BUS;
    const frame = svg(
        'svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Modules by device'}, arrowHead(),
        inputs.map((bus, i) => this.bus(bus, 24 + i * BUS, shifted(x, inputs, i), top)),
        columns.map((c, p) => svg('g', {transform: `translate(${x(p)} ${top + 12})`}, c.parts)),
        outputs.map((bus, i) => this.bus(bus, top + tall + 54 + i * BUS, shifted(x, outputs, i), null, p => top + 12 + columns[p].height)));
    this.element.replaceChildren(frame);
  }

  inputs() {
    const {plan, programs} = this.model;
    return plan.inputs.flatMap((input, host) => {
      if (input.role === 'step state') return [];
      const takers = programs.filter(p => p.data.steps.some(s => s.kind === 'slice' && s.host === host)).map(p => p.index);
      const rows = input.batched ? 'sliced by samples' : 'to each device';
      return takers.length ? [{
        text: `${input.name}  ${input.dtype}[${input.shape.join(',')}]  ${bytesText(typeBytes(input))}, ${rows}`,
        members: takers,
        into: takers
      }] :
                             [];
    });
  }

  // What devices exchange and give, alike ones together.
  buses() {
    const {plan, programs} = this.model, groups = new Map();
    for (const e of plan.exchanges) {
      const members = [...new Set(e.devices.map(d => plan.devices[d].program))];
      const directed = e.kind === 'send' || e.kind === 'broadcast';
      const key = [e.kind, e.gradients, members.join()].join('|');
      if (!groups.has(key))
        groups.set(key, {
          kind: e.kind,
          gradients: e.gradients,
          members,
          into: directed ? members.slice(1) : members,
          count: 0,
          bytes: 0,
          seconds: 0,
          row: e
        });
      const group = groups.get(key);
      group.count += 1;
      group.bytes += exchangeBytes(e);
      group.seconds += e.seconds;
    }
    const buses = [...groups.values()].map(g => ({
                                             ...g,
                                             exchange: true,
                                             text: `${g.kind}${g.count > 1 ? ' ×' + g.count : ''}  ${bytesText(g.bytes)}${
                                                 g.gradients ? ' of gradients' : ''}, ${secondsText(g.seconds)}`
                                           }));
    plan.outputs.forEach((output, host) => {
      const givers = programs.filter(p => p.data.steps.some(s => s.kind === 'concat' && s.host === host)).map(p => p.index);
      if (givers.length)
        buses.push({
          text: `${output.name}  ${output.combine === 'rows' ? 'rows joined' : 'summed'}, ${bytesText(typeBytes(output))}`,
          members: givers,
          into: []
        });
    });
    return buses;
  }

  // A line across the columns that take part, with arrows to those that get.
  bus(bus, y, x, down, up) {
    const middle = p => x(p) + BOX.width / 2, xs = bus.members.map(middle), from = Math.min(...xs), to = Math.max(...xs);
    const lines = bus.members.map(p => {
      const gets = bus.into.includes(p), end = down ?? up(p);
      const attributes = {x1: middle(p), x2: middle(p), class: bus.exchange ? 'exchange' : 'host'};
      if (down !== null) return svg('line', {...attributes, y1: y, y2: end + 6, 'marker-end': 'url(#head)'});
      return bus.exchange ?
          svg('line', {...attributes, y1: gets ? y : end, y2: gets ? end + 4 : y, 'marker-end': gets ? 'url(#head)' : null}) :
          svg('line', {...attributes, y1: end, y2: y, 'marker-end': 'url(#head)'});
    });
    const box =
        svg('g', {class: 'bus', tabindex: '0', role: 'img', 'aria-label': bus.text},
            svg('line', {x1: from, x2: to, y1: y, y2: y, class: bus.exchange ? 'exchange' : 'host'}), lines,
            bus.members.map(p => svg('circle', {cx: middle(p), cy: y, r: 3})),
            svg('text', {x: from + 8, y: y - 7}, shorten(bus.text, BUS_TEXT)));
    return withTip(
        box,
        () =>
            [bus.text,
             ...(bus.row ? [`among ${shorten(deviceNames(bus.row.devices.map(d => this.model.plan.devices[d].device)), 80)}`] : [])]);
  }

  column(program, p) {
    const {model} = this, boxes = boxesOf(program, this.open[p]);
    const device = model.plan.devices.find(d => d.program === p);
    let y = 40;
    for (const box of boxes) {
      box.y = y;
      box.height = box.open ? BOX.head : BOX.height;
      y += box.height + (box.open ? BOX.headGap : BOX.gap);
    }
    const height = y + 4, name = deviceColor(p);
    const frames =
        (program.count > 1 ? [8, 4, 0] : [0])
            .map(
                by => svg(
                    'rect', {x: -10 + by, y: -by, width: BOX.width + 20, height, rx: 8, class: 'frame', style: `stroke: var(--${name})`}));
    const title =
        svg('text', {x: 0, y: 16, class: 'device'}, shorten(program.names + (program.count > 1 ? `  ×${program.count}` : ''), 32));
    const rows =
        svg('text', {x: 0, y: 31, class: 'small'},
            `${device?.slice_size ?? 0} samples${program.count > 1 ? ' each' : ''}, ${bytesText(program.data.peak_bytes)}`);
    return {
      height,
      parts: [frames, title, rows, edgesOf(program, boxes).map(e => this.edge(boxes, e)), boxes.map(b => this.box(program, p, b, name))]
    };
  }

  box(program, p, box, name) {
    const {model} = this, x = box.depth * 8, width = BOX.width - x, module = box.module;
    const step = box.step === undefined ? null : program.data.steps[box.step];
    const seconds = step ? step.seconds : module.seconds, share = seconds / Math.max(1e-12, program.root.seconds);
    const title = step ? model.stepName(program, box.step) : module.name + (module.alike ? `  ×${module.alike}` : '');
    const can = module && opens(module), act = () => can && this.toggle(p, module.path);
    const mark = !can ? '' : box.open ? '▾ ' : '▸ ';
    const group =
        svg('g', {
          transform: `translate(${x} ${box.y})`,
          class: 'box' + (can ? ' opens' : ''),
          tabindex: '0',
          role: can ? 'button' : 'img',
          'data-key': module ? p + module.path : null,
          'aria-expanded': can ? String(Boolean(box.open)) : null,
          'aria-label': `${title}, ${secondsText(seconds)}, ${shareText(share)}, on ${program.names}`,
          onclick: act,
          onkeydown: e => (e.key === 'Enter' || e.key === ' ') && (e.preventDefault(), act()),
        },
            svg('rect', {
              width,
              height: box.height,
              rx: 5,
              style: `fill: color-mix(in srgb, var(--${name}) ${
                  Math.round(12 + 50 * Math.min(1, share * 2))}%, var(--page)); stroke: var(--${name})`
            }),
            svg('text', {x: 9, y: box.open ? 17 : 16}, mark + shorten(title, Math.floor((width - 26) / 7.6))),
            box.open ? null : svg('text', {x: 9, y: 31, class: 'small'}, `${secondsText(seconds)}  ${shareText(share)}`));
    return withTip(group, () => (step ? model.stepFacts(program, box.step) : moduleLines(model, program, module)));
  }

  edge(boxes, e) {
    const from = boxes[e.from], to = boxes[e.to], y1 = from.y + from.height, y2 = to.y, direct = y2 - y1 <= BOX.gap + 1;
    const middle = BOX.width / 2, side = BOX.width + 4 + Math.min(20, 3 + 2 * (e.to - e.from));
    const path = direct ? `M${middle} ${y1}V${y2}` :
                          `M${BOX.width} ${from.y + from.height * 0.7}C${side} ${y1},${side} ${y2},${BOX.width} ${to.y + to.height * 0.3}`;
    const line = svg('path', {
      d: path,
      class: 'edge',
      'stroke-width': Math.max(1, Math.min(5, Math.log10(Math.max(1, e.bytes)) - 4)),
      'marker-end': 'url(#head)'
    });
    const names = [...e.values.values()].slice(0, 4).map(v => `${v.name}  ${bytesText(v.bytes)}`);
    return svg(
        'g', {}, withTip(line, () => [`${bytesText(e.bytes)} a device`, ...names]),
        direct ? svg('text', {x: middle + 8, y: y1 + 13, class: 'small'}, bytesText(e.bytes)) : null);
  }
}

const arrowHead = () => svg(
    'defs', {},
    svg('marker',
        {id: 'head', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: 'userSpaceOnUse', orient: 'auto'},
        svg('path', {d: 'M0 0L8 4L0 8z', class: 'head'})));

function placement(model) {
  const groups = model.programs.length, devices = model.withSamples.length, others = model.plan.devices.length - devices;
  return section(
      'Placement',
      html(
          'p', {},
          `${devices} device${devices === 1 ? '' : 's'}${others ? ` and ${others} without samples` : ''} in ${groups} group${
              groups === 1 ? '' : 's'} that do${groups === 1 ? 'es' : ''} the same. ` +
              'A box is a module of the model and opens by a click or Enter; its shade is its share of the time.'),
      new Placement(model).element);
}
