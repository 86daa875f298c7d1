// The page is put together, one part after another, so that what stands on top is there at once.

function build() {
  const page = document.getElementById('page');
  const model = new PlanModel(JSON.parse(document.getElementById('plan').textContent));
  const view = new TimeView(model.seconds);
  document.body.append(tip);
  const parts = [headline, placement, m => timeline(m, view), m => memory(m, view), work, exchangesTable];
  const next = () => {
    const part = parts.shift();
    if (!part) return document.documentElement.setAttribute('data-ready', Math.round(performance.now()));
    const element = part(model);
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
