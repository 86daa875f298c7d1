// What a step takes, what bounds it, and what may be tried.

const BOUND_NAMES = {
  arithmetic: 'arithmetic',
  memory: 'memory',
  latency: 'launches',
  waiting: 'links and waiting'
};

function tile(name, value, more) {
  return html(
      'div', {class: 'tile'}, html('dt', {}, name), html('dd', {}, html('strong', {}, value), more ? html('span', {}, more) : null));
}

function meter(name, value, most) {
  const share = most > 0 ? value / most : 0;
  return html(
      'div', {
        class: 'meter',
        role: 'meter',
        'aria-label': name,
        'aria-valuemin': 0,
        'aria-valuemax': most,
        'aria-valuenow': value,
        'aria-valuetext': `${bytesText(value)} of ${bytesText(most)}`
      },
      html('span', {class: share > 0.9 ? 'full' : '', style: `width: ${Math.min(100, 100 * share)}%`}));
}

function tiles(model) {
  const {plan} = model, peak = model.fullest.data, memory = peak.model.memory;
  const flops = model.longest.program.root.flops, achieved = flops / model.longest.seconds;
  return html(
      'dl', {class: 'tiles'},
      tile('Step', secondsText(model.seconds), plan.programs.some(p => p.steps.some(s => s.measured)) ? 'kernels measured' : 'estimated'),
      tile('Rate', countText(plan.batch / model.seconds) + ' samples/s', `batch ${plan.batch}`),
      html(
          'div', {class: 'tile'}, html('dt', {}, 'Peak memory'),
          html(
              'dd', {}, html('strong', {}, bytesText(peak.peak_bytes)),
              html('span', {}, memory > 0 ? `of ${bytesText(memory)} on ${model.fullest.names}` : `on ${model.fullest.names}`)),
          memory > 0 ? meter('Peak memory', peak.peak_bytes, memory) : null),
      tile(
          'Arithmetic', countText(achieved) + 'FLOP/s',
          peak.model.flops > 0 ? `${shareText(achieved / model.longest.program.data.model.flops)} of the float32 peak, a device` :
                                 'a device'),
      plan.bubble === null ? null : tile('Bubble', shareText(plan.bubble), `${plan.micro_batches} micro-batches, ${plan.schedule}`));
}

function boundsBar(model) {
  const {bounds} = model.plan, parts = Object.keys(BOUND_NAMES).map(k => [k, bounds[k]]).filter(([, v]) => v > 0);
  const all = parts.reduce((sum, [, v]) => sum + v, 0);
  if (!(all > 0)) return null;
  parts.sort((a, b) => b[1] - a[1]);
  const [largest, most] = parts[0];
  const text = `${parts.map(([k, v]) => `${BOUND_NAMES[k]} ${secondsText(v)}, ${shareText(v / all)}`).join('; ')}`;
  return html(
      'div', {class: 'bound'},
      html(
          'p', {}, 'Bound by ', html('strong', {}, BOUND_NAMES[largest]),
          `: ${secondsText(most)}, ${shareText(most / all)} of the step of ${model.longest.names}.`),
      html(
          'div', {class: 'bar', role: 'img', 'aria-label': 'Where the step\'s time goes: ' + text},
          parts.map(
              ([k, v]) => withTip(
                  html('span', {style: `flex: ${v / all} 0 0; background: var(--bound-${k})`}, v / all > 0.12 ? shareText(v / all) : ''),
                  () => [BOUND_NAMES[k], `${secondsText(v)}, ${shareText(v / all)} of the step`]))),
      legend(parts.map(([k, v]) => ['bound-' + k, `${BOUND_NAMES[k]} ${secondsText(v)}`])));
}

function advice(model) {
  const list = model.plan.advice.slice(0, 3);
  if (!list.length) return html('p', {}, 'No option is known by which the plan\'s numbers would change by 1% or more.');
  return html(
      'div', {}, html('h3', {}, list.length === 1 ? 'To try' : `To try: ${list.length} options`),
      html(
          'ol', {class: 'advice'},
          list.map(
              a => html(
                  'li', {}, html('code', {}, a.option), ' saves at most ',
                  html(
                      'strong', {},
                      a.saves_seconds > 0 ? `${secondsText(a.saves_seconds)} (${shareText(a.saves_seconds / model.seconds)})` :
                                            `${bytesText(a.saves_bytes)} (${shareText(a.saves_bytes / model.fullest.data.peak_bytes)})`),
                  ': ' + a.reason + '.'))));
}

function headline(model) {
  const {plan} = model;
  const facts = [
    `${deviceNames(plan.devices.map(d => d.device))}`, plan.precision, plan.optimizer, plan.loss && `loss ${plan.loss}`,
    plan.recompute && `recompute: ${plan.recompute}`, plan.offload && `offload: ${plan.offload}`,
    ...Object.entries((plan.record && plan.record.backends) || {}).map(([name, by]) => `libraries of ${name}: ${by}`)
  ];
  const warnings = plan.warnings.length ? html(
                                              'section', {class: 'warnings', 'aria-label': 'Warnings'},
                                              html('h2', {}, plan.warnings.length === 1 ? 'Warning' : `${plan.warnings.length} warnings`),
                                              html('ul', {}, plan.warnings.map(w => html('li', {}, w)))) :
                                                                                          null;
  return html(
      'div', {class: 'headline'}, html('p', {class: 'facts'}, facts.filter(Boolean).join(' · ')), warnings, tiles(model), boundsBar(model),
      advice(model));
}
