// The page is put together, one part after another, so that what stands on top is there at once. Two plans stand side by side.

const read = id => JSON.parse(document.getElementById(id)?.textContent ?? 'null');

function build() {
  const page = document.getElementById('page'), diff = read('diff');
  const models = [read('plan'), read('other')].filter(Boolean).map(plan => new PlanModel(plan));
  const view = new TimeView(Math.max(...models.map(m => m.seconds)));
  document.body.append(tip);
  const drawings = [headline, placement, m => timeline(m, view), m => memory(m, view), work, exchangesTable];
  const parts = drawings.map(draw => () => diff ? pair(models.map(draw), draw === headline ? namesOf(diff) : null) : draw(models[0]));
  if (diff) {
    document.body.className = 'wide';
    parts.unshift(() => differences(diff));
  }
  const next = () => {
    const part = parts.shift();
    if (!part) return document.documentElement.setAttribute('data-ready', Math.round(performance.now()));
    const element = part();
    if (element) page.append(element);
    setTimeout(next);
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    colors.clear();
    view.pictures.forEach(p => p.redraw());
  });
  document.addEventListener('keydown', e => e.key === 'Escape' && hideTip());
  next();
}
build();
