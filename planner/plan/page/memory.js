// What lies in a device's memory when.

const ARENAS = ['parameters', 'optimizer', 'gradients', 'constants', 'staging', 'scratch'];
const CLASSES = ['weights', 'optimizer state', 'gradients', 'activations', 'inputs', 'workspace'];
const classColor = name => 'memory' + Math.max(0, CLASSES.indexOf(name));
const MOST_BLOCKS = 60000;

function blocksOf(model, program) {
  const line = model.lines.find(l => l.program === program), {data} = program;
  const base = {};
  let top = 0;
  for (const kind of ARENAS) {
    base[kind] = top;
    top += data.arenas.find(a => a.kind === kind)?.bytes ?? 0;
  }
  const times = data.steps.map(() => []);  // of a step, its places in the timeline
  line.steps.forEach((s, i) => times[s].push(i));
  const slots = new Map(data.schedule.map(e => [e.chunk + ':' + e.micro_batch, e.slot]));
  const blocks = [];
  const add = (b, buffer, begin, end, offset) =>
      blocks.push({b, buffer, begin, end, low: base[buffer.arena] + offset, high: base[buffer.arena] + offset + buffer.bytes});
  data.buffers.forEach((buffer, b) => {
    if (buffer.alias !== undefined || !buffer.bytes) return;
    const first = times[buffer.first] ?? [], last = times[buffer.last] ?? [];
    if (buffer.arena !== 'scratch' || !first.length || !last.length) return add(b, buffer, 0, line.seconds, buffer.offset);
    // What micro-batches use in turn lives once in each; what none of them ends lives through all.
    const inTurn = line.micro && first.length > 1 && first.length === last.length;
    if (!inTurn) {
      const begin = Math.min(...first.map(i => line.begins[i])), end = Math.max(...last.map(i => line.ends[i]));
      return add(b, buffer, Math.min(begin, end), Math.max(begin, end), buffer.offset);
    }
    const endOf = new Map(last.map(i => [line.micro[i], line.ends[i]]));
    for (const i of first) {
      const m = line.micro[i], slot = buffer.in_slot ? slots.get(data.steps[buffer.first].chunk + ':' + m) ?? 0 : 0;
      add(b, buffer, line.begins[i], Math.max(line.ends[i], endOf.get(m) ?? 0), buffer.offset + slot * data.slot_bytes);
    }
  });
  return {line, blocks: blocks.slice(0, MOST_BLOCKS), left: Math.max(0, blocks.length - MOST_BLOCKS), top};
}

// Bytes that are alive, as a list of times and sums, and when they are the most.
function liveOf(blocks) {
  const events = blocks.flatMap(k => [[k.begin, k.high - k.low], [k.end, k.low - k.high]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const points = [];
  let sum = 0, most = 0, at = 0;
  events.forEach(([time, by], i) => {
    sum += by;
    if (i + 1 < events.length && events[i + 1][0] === time) return;
    points.push([time, sum]);
    if (sum > most) [most, at] = [sum, time];
  });
  return {points, most, at};
}

// Who made it and who reads it last: by that it lives so long.
function lifeOf(model, program) {
  const {data, roots} = program;
  const made = new Map(), read = new Map(), works = new Map();
  data.steps.forEach((step, s) => {
    if (step.workspace !== undefined) works.set(roots[step.workspace], s);
    for (const b of step.outputs)
      if (b >= 0 && !made.has(roots[b])) made.set(roots[b], s);
    for (const b of step.inputs)
      if (b >= 0) read.set(roots[b], s);
  });
  return b => {
    const buffer = data.buffers[b];
    if (buffer.arena !== 'scratch') return `kept in arena ${buffer.arena} for the whole step`;
    const name = s => `${model.stepName(program, s)} (step ${s})`;
    if (works.has(b)) return 'workspace of ' + name(works.get(b));
    return [made.has(b) ? 'made by ' + name(made.get(b)) : null, read.has(b) ? 'last read by ' + name(read.get(b)) : 'read by none']
        .filter(Boolean)
        .join(', ');
  };
}

function drawBlocks(context, picture, {blocks, live, limit, scale, lineSeconds}) {
  const {left, width, view} = picture, floor = picture.height - 20;
  const y = bytes => floor - bytes / scale * (floor - 8);
  const clip = x => Math.min(width, Math.max(left, x));
  for (const k of blocks) {
    if (k.end < view.begin || k.begin > view.end) continue;
    const x1 = clip(picture.x(k.begin)), x2 = clip(picture.x(k.end)), y1 = y(k.high), y2 = y(k.low);
    context.fillStyle = color(classColor(k.buffer.memory));
    context.fillRect(x1, y1, Math.max(0.5, x2 - x1), Math.max(0.4, y2 - y1 - (y2 - y1 > 2 ? 0.5 : 0)));
    if (x2 - x1 > 60 && y2 - y1 > 12) {
      context.fillStyle = color('on-memory');
      context.textAlign = 'left';
      context.fillText(fitted(context, k.buffer.name, x2 - x1 - 8), x1 + 4, (y1 + y2) / 2);
    }
    if (picture.selected === k) {
      context.strokeStyle = color('text');
      context.lineWidth = 2;
      context.strokeRect(x1, y1, Math.max(2, x2 - x1), Math.max(2, y2 - y1));
    }
  }
  context.strokeStyle = color('text');
  context.lineWidth = 1.2;
  context.beginPath();
  let before = null;
  for (const [time, bytes] of [...live.points, [lineSeconds, live.points.at(-1)?.[1] ?? 0]]) {
    const x = clip(picture.x(time));
    before === null ? context.moveTo(x, y(bytes)) : (context.lineTo(x, before), context.lineTo(x, y(bytes)));
    before = y(bytes);
  }
  context.stroke();
  const mark = (bytes, name, text) => {
    context.strokeStyle = context.fillStyle = color(name);
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(left, y(bytes));
    context.lineTo(width, y(bytes));
    context.stroke();
    context.setLineDash([]);
    context.textAlign = 'right';
    context.fillText(text, left - 6, Math.max(8, y(bytes)));
  };
  if (limit > 0 && limit <= scale) mark(limit, 'limit', 'limit');
  context.fillStyle = color('quiet');
  context.textAlign = 'right';
  for (const part of [0, 0.25, 0.5, 0.75, 1])
    context.fillText(bytesText(part * scale), left - 6, Math.min(floor - 2, Math.max(14, y(part * scale))));
}

function memoryOf(model, view, program) {
  const {line, blocks, left, top} = blocksOf(model, program), live = liveOf(blocks), why = lifeOf(model, program);
  const limit = program.data.model.memory, scale = Math.max(1, limit > 0 && limit < 1.6 * top ? Math.max(limit, top) * 1.04 : top * 1.04);
  const tell = k =>
      [k.buffer.name,
       `${bytesText(k.high - k.low)} of ${k.buffer.memory}, ${k.buffer.dtype}[${k.buffer.shape.join(',')}]${
           k.buffer.placement ? ', ' + k.buffer.placement : ''}`,
       `alive from ${secondsText(k.begin)} to ${secondsText(k.end)}, ${
           shareText((k.end - k.begin) / Math.max(1e-12, line.seconds))} of the step`,
       why(k.b)];
  const alive = blocks.filter(k => k.begin <= live.at && k.end > live.at).sort((a, b) => b.high - b.low - (a.high - a.low));
  const picture =
      new Picture(view, `Memory of ${program.names} over time: at most ${bytesText(live.most)} alive, ${bytesText(top)} allocated`, {
        left: innerWidth < 600 ? 70 : 84,
        height: 300,
        tell,
        draw: (context, p) => drawBlocks(context, p, {blocks, live, limit, scale, lineSeconds: line.seconds}),
        find: (x, y) => {
          const floor = 280, bytes = (floor - y) / (floor - 8) * scale, time = x < picture.left ? -1 : picture.seconds(x);
          return blocks.find(k => k.begin <= time && k.end >= time && k.low <= bytes && k.high > bytes) ?? null;
        },
        next: (item, by) => alive[Math.min(alive.length - 1, Math.max(0, item ? alive.indexOf(item) + by : 0))] ?? null,
      });
  const used = CLASSES.filter(c => blocks.some(k => k.buffer.memory === c));
  const text = `${bytesText(top)} are allocated; at most ${bytesText(live.most)} are alive, at ${secondsText(live.at)}. ` +
      (limit > 0 ? `The device has ${bytesText(limit)}, of which this is ${shareText(top / limit)}.` : 'The device\'s limit is not known.');
  const rows = alive.map(k => ({cells: [k.buffer.name, k.high - k.low, k.buffer.memory, k.end - k.begin, why(k.b)]}));
  return {
    picture,
    element: html(
        'div', {}, html('p', {}, text), legend(used.map(c => [classColor(c), c])),
        left ? html('p', {}, `${left} small blocks are left out.`) : null, picture.element,
        table(
            `Alive at the peak on ${program.names}`, [['tensor'], ['bytes', bytesText], ['class'], ['alive', secondsText], ['why']], rows,
            1))
  };
}

function memory(model, view) {
  const place = html('div', {});
  const show = index => {
    const {picture, element} = memoryOf(model, view, model.programs[index]);
    view.pictures = view.pictures.filter(p => p !== place.picture);
    place.picture = picture;
    place.replaceChildren(element);
  };
  show(model.fullest.index);
  const pick = model.programs.length > 1 ? choice('Device', model.programs.map(p => p.names), show) : null;
  if (pick) pick.querySelector('select').selectedIndex = model.fullest.index;
  return section('Memory over time', pick, place);
}
