// When each device's streams do what. Devices that do the same at the same time are one lane group.

const LANE = 20, LANE_GAP = 8;
const MOST_LANES = 160;

const COMPUTING = new Set(['compute', 'weight gradients']);  // streams, by name

function lanesOf(model) {
  const lanes = [];
  let y = 6;
  for (const line of model.lines) {
    const byStream = new Map();
    line.steps.forEach((s, i) => {
      const stream = line.program.data.steps[s].stream;
      if (!byStream.has(stream)) byStream.set(stream, []);
      byStream.get(stream).push(i);
    });
    let first = true;
    for (const [stream, items] of [...byStream].sort((a, b) => a[0] - b[0])) {
      if (lanes.length >= MOST_LANES) return lanes;
      const busy = items.reduce((sum, i) => sum + line.ends[i] - line.begins[i], 0);
      lanes.push({line, stream, items, y, first, busy, name: STREAMS[stream] ?? 'stream ' + stream});
      y += LANE;
      first = false;
    }
    y += LANE_GAP;
  }
  return lanes;
}

// What exchanges connect: for each and each micro-batch the slices that take part, in their lanes.
function meetingsOf(lanes) {
  const meetings = new Map();
  for (const lane of lanes)
    for (const i of lane.items) {
      const step = lane.line.program.data.steps[lane.line.steps[i]];
      if (step.exchange === undefined) continue;
      const key = step.exchange + ':' + (lane.line.micro ? lane.line.micro[i] : 0);
      if (!meetings.has(key)) meetings.set(key, []);
      meetings.get(key).push({lane, i, gives: step.kind === 'send'});
    }
  return [...meetings.values()].filter(m => m.length > 1);
}

const itemBegin = (lane, n) => lane.line.begins[lane.items[n]];
// The first slice of a lane that ends behind a time.
function firstAfter(lane, time) {
  let low = 0, high = lane.items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    lane.line.ends[lane.items[middle]] < time ? (low = middle + 1) : (high = middle);
  }
  return low;
}

function drawSlices(context, picture, lane) {
  const {line, y} = lane, {view, left, width} = picture;
  context.fillStyle = color('idle');
  context.fillRect(left, y, Math.max(0, picture.x(line.seconds) - left), LANE - 3);
  let painted = left;
  for (let n = firstAfter(lane, view.begin); n < lane.items.length; ++n) {
    const i = lane.items[n];
    if (line.begins[i] > view.end) break;
    const from = Math.max(left, picture.x(line.begins[i])), to = Math.min(width, picture.x(line.ends[i]));
    if (to <= painted && to - from < 0.5) continue;
    const s = line.steps[i], kind = line.program.kinds[s];
    context.fillStyle = color(kind);
    context.fillRect(from, y, Math.max(0.6, to - from - (to - from > 3 ? 0.6 : 0)), LANE - 3);
    painted = Math.max(painted, from + 0.6);
    if (to - from > 44) {
      context.fillStyle = color('on-' + kind);
      context.textAlign = 'left';
      context.fillText(fitted(context, stepLabel(lane, i), to - from - 8), from + 4, y + (LANE - 3) / 2);
    }
  }
}

function stepLabel(lane, i) {
  const {line} = lane, step = line.program.data.steps[line.steps[i]];
  return (line.micro && step.phase !== 'update' && step.phase !== 'prepare' ? line.micro[i] + ' ' : '') + (step.op ?? step.kind);
}

// From who gives to who gets; where all give and get, through all lanes that meet.
function drawMeetings(context, picture, meetings) {
  context.strokeStyle = context.fillStyle = color('arrow');
  context.lineWidth = 1;
  let drawn = 0;
  for (const members of meetings) {
    const [first] = members, begin = first.lane.line.begins[first.i], end = first.lane.line.ends[first.i];
    if (end < picture.view.begin || begin > picture.view.end || ++drawn > 1500) continue;
    const giver = members.find(m => m.gives);
    const middle = m => m.lane.y + (LANE - 3) / 2;
    if (giver) {
      for (const taker of members)
        if (taker !== giver) arrow(context, picture.x(begin), middle(giver), picture.x(end), middle(taker), picture.left);
      continue;
    }
    const x = Math.max(picture.left, picture.x((Math.max(begin, picture.view.begin) + Math.min(end, picture.view.end)) / 2));
    const ys = members.map(middle);
    context.beginPath();
    context.moveTo(x, Math.min(...ys));
    context.lineTo(x, Math.max(...ys));
    context.stroke();
    for (const y of ys) {
      context.beginPath();
      context.arc(x, y, 2.2, 0, 7);
      context.fill();
    }
  }
}

function arrow(context, x1, y1, x2, y2, left) {
  if (x2 < left) return;
  context.beginPath();
  context.moveTo(Math.max(left, x1), y1);
  context.lineTo(x2, y2);
  context.stroke();
  const angle = Math.atan2(y2 - y1, x2 - x1);
  context.beginPath();
  context.moveTo(x2, y2);
  context.lineTo(x2 - 6 * Math.cos(angle - 0.4), y2 - 6 * Math.sin(angle - 0.4));
  context.lineTo(x2 - 6 * Math.cos(angle + 0.4), y2 - 6 * Math.sin(angle + 0.4));
  context.fill();
}

function drawNames(context, picture, lanes) {
  context.fillStyle = color('page');
  context.fillRect(0, 0, picture.left - 2, picture.height);
  context.textAlign = 'right';
  for (const lane of lanes) {
    context.fillStyle = color(lane.first ? 'text' : 'quiet');
    const narrow = picture.left < 120;
    const text = !lane.first ? lane.name : narrow ? lane.line.names : `${lane.line.names} ${lane.name}`;
    context.fillText(fitted(context, text, picture.left - 12), picture.left - 8, lane.y + (LANE - 3) / 2);
  }
}

function tellSlice(model, {lane, n}) {
  const i = lane.items[n], {line} = lane, step = line.program.data.steps[line.steps[i]];
  const facts = model.stepFacts(line.program, line.steps[i]);
  if (line.micro && step.phase !== 'update') facts.push(`${step.phase} of micro-batch ${line.micro[i]}`);
  facts.push(`${secondsText(line.begins[i])} to ${secondsText(line.ends[i])} on ${line.names}, ${lane.name}`);
  if (step.exchange !== undefined) {
    const e = model.plan.exchanges[step.exchange];
    facts.push(
        `${e.kind} of ${bytesText(exchangeBytes(e))} among ${e.devices.length / e.rows} devices${e.rows > 1 ? `, in ${e.rows} rows` : ''}`);
  }
  return facts;
}

function timeline(model, view) {
  const narrow = innerWidth < 600, lanes = lanesOf(model), meetings = meetingsOf(lanes);
  const height = (lanes.at(-1)?.y ?? 0) + LANE + 24;
  const find = (x, y) => {
    const lane = lanes.find(l => y >= l.y && y < l.y + LANE - 2);
    if (!lane || x < picture.left) return null;
    const time = picture.seconds(x), n = firstAfter(lane, time);
    return n < lane.items.length && itemBegin(lane, n) <= time + (view.end - view.begin) / 400 ? {lane, n} : null;
  };
  const next = (item, by) => {
    if (!item) return lanes[0] ? {lane: lanes[0], n: firstAfter(lanes[0], view.begin)} : null;
    const n = Math.min(item.lane.items.length - 1, Math.max(0, item.n + by)), time = itemBegin(item.lane, n);
    if (time < view.begin || time > view.end) view.set(time, time + view.end - view.begin);
    return {lane: item.lane, n};
  };
  const draw = (context, p) => {
    for (const lane of lanes) drawSlices(context, p, lane);
    drawMeetings(context, p, meetings);
    if (p.selected) {
      const {lane, n} = p.selected, i = lane.items[n];
      context.strokeStyle = color('text');
      context.lineWidth = 2;
      context.strokeRect(p.x(lane.line.begins[i]), lane.y, Math.max(2, p.x(lane.line.ends[i]) - p.x(lane.line.begins[i])), LANE - 3);
    }
    drawNames(context, p, lanes);
  };
  const label = `Timeline: ${model.lines.length} groups of devices, ${lanes.length} lanes, ${secondsText(model.seconds)}`;
  const picture = new Picture(view, label, {left: narrow ? 84 : 200, height, draw, find, next, tell: item => tellSlice(model, item)});
  const idle = model.lines
                   .map(line => {
                     const computing = lanes.filter(l => l.line === line && COMPUTING.has(l.name));
                     if (computing.length === 0 || !(line.seconds > 0)) return null;
                     const busy = computing.reduce((sum, l) => sum + l.busy, 0);
                     return `${line.names} ${shareText(Math.max(0, 1 - busy / line.seconds))}`;
                   })
                   .filter(Boolean);
  const used = KINDS.filter(k => model.programs.some(p => p.kinds.includes(k)));
  return section(
      'Timeline', html('p', {}, `A step as planned. No kernel runs: ${shorten(idle.join(', '), 200)} of the time.`),
      legend([...used.map(k => [k, KIND_NAMES[k]]), ['idle', 'nothing runs']]),
      lanes.length >= MOST_LANES ? html('p', {}, `The first ${MOST_LANES} lanes are shown.`) : null,
      html('div', {class: 'scroll'}, picture.element));
}
