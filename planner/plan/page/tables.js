// Tables that are sorted by their heads and searched.

const SHOWN = 30;

// `columns`: a name, and for numbers how they are written. Rows are {cells}; `sorted`: the column by which they come, the most first.
function table(title, columns, rows, sorted) {
  let by = sorted, down = true, all = false, wanted = '';
  const body = html('tbody'), more = html('button', {type: 'button', onclick: () => ((all = true), draw())});
  const heads = columns.map(
      ([name, text], c) => html(
          'th', {scope: 'col', class: text ? 'number' : null},
          html('button', {type: 'button', onclick: () => ((down = by === c ? !down : Boolean(text)), (by = c), draw())}, name)));
  const draw = () => {
    heads.forEach((head, c) => head.setAttribute('aria-sort', c === by ? (down ? 'descending' : 'ascending') : 'none'));
    const found = rows.filter(r => !wanted || r.cells.some(v => typeof v === 'string' && v.toLowerCase().includes(wanted)));
    found.sort((a, b) => {
      const [x, y] = [a.cells[by], b.cells[by]];
      const order = typeof x === 'string' ? x.localeCompare(y, 'en', {numeric: true}) : (x ?? -1) - (y ?? -1);
      return down ? -order : order;
    });
    body.replaceChildren(...found.slice(0, all ? 5000 : SHOWN).map(r => html('tr', {}, r.cells.map((v, c) => {
                                                                     const text = v === null ? '' : columns[c][1] ? columns[c][1](v) : v;
                                                                     return html(
                                                                         c === 0 ? 'th' : 'td', {
                                                                           class: columns[c][1] ? 'number' : null,
                                                                           scope: c === 0 ? 'row' : null,
                                                                           title: text.length > 48 ? text : null
                                                                         },
                                                                         shorten(text, 100));
                                                                   }))));
    more.hidden = all || found.length <= SHOWN;
    more.textContent = `Show all ${found.length}`;
    count.textContent = wanted ? `${found.length} of ${rows.length}` : `${rows.length}`;
  };
  const count = html('span', {class: 'count', role: 'status'});
  const search = rows.length > 8 ? html('input', {
    type: 'search',
    placeholder: 'Search',
    'aria-label': `Search in ${title}`,
    oninput: e => ((wanted = e.target.value.toLowerCase()), draw())
  }) :
                                   null;
  draw();
  return html(
      'div', {class: 'table'}, html('div', {class: 'tools'}, html('h3', {}, title), count, search),
      html(
          'div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title},
          html('table', {'aria-label': title}, html('thead', {}, html('tr', {}, heads)), body)),
      more);
}

const workColumns = [
  ['steps', v => number(v, 0)], ['time', secondsText], ['share', shareText], ['FLOP', countText], ['bytes', bytesText],
  ['FLOP/B', v => number(v, 1)], ['of roof', shareText], ['bound by']
];

// Sums of steps by a key: over the devices of one program, a step of each.
function workRows(model, program, keyOf) {
  const sums = new Map();
  program.data.steps.forEach((step, s) => {
    const key = keyOf(step, s);
    if (key === null) return;
    if (!sums.has(key)) sums.set(key, {count: 0, seconds: 0, flops: 0, bytes: 0, roof: 0, arithmetic: 0});
    const sum = sums.get(key), times = model.repeats(program, step), roof = step.kind === 'launch' ? model.roof(program, step) : null;
    sum.count += times;
    for (const part of ['seconds', 'flops', 'bytes']) sum[part] += step[part] * times;
    if (!roof) return;
    sum.roof += roof.seconds * times;
    if (roof.by === 'arithmetic') sum.arithmetic += step.seconds * times;
  });
  const line = model.lines.find(l => l.program === program);
  return [...sums].map(
      ([key, w]) => ({
        cells: [
          key, w.count, w.seconds, w.seconds / Math.max(1e-12, line.seconds), w.flops, w.bytes, w.bytes ? w.flops / w.bytes : null,
          w.roof && w.seconds ? w.roof / w.seconds : null, w.roof ? (w.arithmetic > w.seconds / 2 ? 'arithmetic' : 'memory') : ''
        ]
      }));
}

function work(model) {
  const place = html('div', {});
  const show = index => {
    const program = model.programs[index];
    const modules = workRows(model, program, (step, s) => program.modules[s].slice(0, 2).map(m => m.name).join('/') || null);
    const operators = workRows(model, program, step => (step.kind === 'launch' ? `${step.op} · ${step.kernel}` : step.kind));
    place.replaceChildren(
        table('By module', [['module'], ...workColumns], modules, 2),
        table('By operator', [['operator · kernel'], ...workColumns], operators, 2));
  };
  show(model.longest.program.index);
  const pick = model.programs.length > 1 ? choice('Device', model.programs.map(p => p.names), show) : null;
  if (pick) pick.querySelector('select').selectedIndex = model.longest.program.index;
  const peak = model.longest.program.data.model;
  const roofs = peak.flops > 0 && peak.bandwidth > 0 ?
      ` The roof is that of float32: ${countText(peak.flops)}FLOP/s and ${bytesText(peak.bandwidth)}/s.` :
      '';
  return section('Work', html('p', {}, `Sums over a step of one device.${roofs}`), pick, place);
}

// "gradients of conv1.weight to fc.bias (12)"
function carried(e) {
  if (!e.values.length) return '';
  const names = e.values.length > 1 ? `${e.values[0]} to ${e.values.at(-1)} (${e.values.length})` : e.values[0];
  return (e.gradients ? 'gradients of ' : '') + names;
}

function exchangesTable(model) {
  const {plan} = model, columns = [['name'], ['kind'], ['bytes', bytesText], ['time', secondsText], ['among'], ['carries']];
  const rows = plan.exchanges.map(e => ({
                                    cells: [
                                      e.name, e.kind, exchangeBytes(e), e.seconds,
                                      (e.rows > 1 ? `${e.rows} rows like ` : '') +
                                          deviceNames(e.devices.slice(0, e.devices.length / e.rows).map(d => plan.devices[d].device)),
                                      carried(e)
                                    ]
                                  }));
  const moved = plan.transfers.map(t => ({cells: [t.value, t.kind, t.bytes, t.axis || 'between groups', t.node, t.reason]}));
  if (!rows.length && !moved.length) return null;
  return section(
      'What moves between devices',
      moved.length ?
          table('Transfers that nodes ask for', [['value'], ['kind'], ['bytes', bytesText], ['along'], ['for'], ['reason']], moved, 2) :
          null,
      rows.length ? table('Exchanges', columns, rows, 2) : null);
}
