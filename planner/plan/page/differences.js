// What differs between two plans: a table for each part of them, above both side by side.

const UNITS = {
  text: v => v,
  bytes: bytesText,
  seconds: secondsText,
  count: v => number(v, Number.isInteger(v) ? 0 : 2)
};

const fileOf = name => name.slice(name.lastIndexOf('/') + 1);
// Names of both as heads of columns: of files, where these differ.
function namesOf(diff) {
  const names = [diff.before.name, diff.after.name], files = names.map(fileOf);
  return files[0] !== files[1] ? files : names[0] !== names[1] ? names : ['first', 'second'];
}

function differenceOf(row) {
  if (row.unit === 'text' || row.before === null || row.after === null || !row.before) return '';
  const by = row.after / row.before - 1;
  return (by > 0 ? '+' : '') + shareText(by);
}

function differenceTable(part, names) {
  const text = (row, value) => value === null ? '' : UNITS[row.unit](value);
  const rows =
      part.rows.map(r => ({cells: [r.change === 'changed' ? '' : r.change, r.name, r.kind, r.what, text(r, r.before), text(r, r.after), differenceOf(r)]}));
  const columns = ['change', 'name', 'kind', 'what', ...names, 'by'];
  const used = columns.map((_, c) => rows.some(r => r.cells[c] !== ''));
  const keep = list => list.filter((_, c) => used[c]);
  const title = part.summary ? `${part.title}: ${part.summary}` : part.title;
  return table(title, keep(columns).map(name => [name]), rows.map(r => ({cells: keep(r.cells)})), null);
}

function differences(diff) {
  const names = namesOf(diff);
  if (diff.equal) return section('What differs', html('p', {}, 'Nothing: steps, kernels, memory and exchanges are the same.'));
  return section('What differs', diff.tables.map(part => differenceTable(part, names)));
}

function pair(elements, titles) {
  if (!elements.some(Boolean)) return null;
  return html('div', {class: 'pair'}, elements.map((e, i) => html('div', {}, titles ? html('h2', {}, titles[i]) : null, e)));
}
