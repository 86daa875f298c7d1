// What the pictures are made of: the plan as the page's JSON has it, and what follows from it. STREAMS, their names by number, stands before.

const number = (value, digits) => value.toLocaleString('en', {maximumFractionDigits: digits, minimumFractionDigits: digits});
const scaled = (value, units, base) => {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(value) >= base) {
    value /= base;
    ++unit;
  }
  return number(value, unit === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2) + ' ' + units[unit];
};
const bytesText = value => scaled(value, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const countText = value => scaled(value, ['', 'k', 'M', 'G', 'T', 'P'], 1000).trim();
const secondsText = value => value >= 1 ? number(value, 2) + ' s' : value <= 0 ? '0' : scaled(value * 1e9, ['ns', 'µs', 'ms'], 1000);
const shareText = value => number(100 * value, 1) + '%';

// The parts of a plan's steps that colours tell apart.
const KINDS = ['product', 'other', 'update', 'exchange', 'host'];
const KIND_NAMES = {
  product: 'convolutions and products',
  other: 'other kernels',
  update: 'updates',
  exchange: 'exchanges',
  host: 'copies from and to the host',
};
const PRODUCTS = /Conv|MatMul|Gemm|Product|Attention|LSTM|GRU|RNN|Linear/;
const PERSISTENT = new Set(['parameters', 'optimizer']);

function kindOf(step, program) {
  if (step.kind === 'slice' || step.kind === 'concat') return 'host';
  if (step.kind !== 'launch') return 'exchange';
  if (step.outputs.some(b => b >= 0 && PERSISTENT.has(program.buffers[b].arena))) return 'update';
  return PRODUCTS.test(step.op) ? 'product' : 'other';
}

// "cpu:0-3, cuda:1"
function deviceNames(names) {
  const runs = [];
  for (const name of names) {
    const [, backend, index] = /^(.*):(\d+)$/.exec(name) ?? [null, name, '0'];
    const last = runs.at(-1);
    if (last && last.backend === backend && last.end + 1 === Number(index))
      last.end += 1;
    else
      runs.push({backend, begin: Number(index), end: Number(index)});
  }
  return runs.map(r => `${r.backend}:${r.begin}${r.end > r.begin ? '-' + r.end : ''}`).join(', ');
}

const DTYPE_BYTES = {
  float64: 8,
  int64: 8,
  uint64: 8,
  float32: 4,
  int32: 4,
  uint32: 4,
  float16: 2,
  bfloat16: 2,
  int16: 2,
  uint16: 2
};
const exchangeBytes = e => e.elements * (DTYPE_BYTES[e.dtype] ?? 1);
const typeBytes = t => t.shape.reduce((n, d) => n * d, 1) * (DTYPE_BYTES[t.dtype] ?? 1);

// Whose memory each buffer lies in: its own, or that of what it is an alias of in the end. Each is walked over once.
function rootsOf(buffers) {
  const roots = new Int32Array(buffers.length).fill(-1);
  buffers.forEach((_, b) => {
    const way = [];
    for (; roots[b] < 0; b = buffers[b].alias) {
      way.push(b);
      roots[b] = b;
      if (buffers[b].alias === undefined) break;
    }
    for (const w of way) roots[w] = roots[b];
  });
  return roots;
}

// The modules of a program as a tree: each has the steps of its nodes. Names are paths from the root.
class Module {
  constructor(name, path) {
    Object.assign(this, {name, path, children: new Map(), steps: [], order: Infinity, seconds: 0, flops: 0, bytes: 0, count: 0});
  }
  child(name) {
    if (!this.children.has(name)) this.children.set(name, new Module(name, this.path ? this.path + '/' + name : name));
    return this.children.get(name);
  }
  get sorted() { return [...this.children.values()].sort((a, b) => a.order - b.order); }
}

class PlanModel {
  constructor(plan) {
    this.plan = plan;
    this.programs = plan.programs.map((p, index) => this.prepare(p, index));
    this.lines = plan.timelines.map((t, index) => this.prepareLine(t, index));
    this.lineOf = new Map();
    for (const line of this.lines)
      for (const d of line.devices) this.lineOf.set(d, line);
    this.seconds = Math.max(1e-12, ...this.lines.map(l => l.seconds));
    this.longest = this.lines.reduce((a, b) => (b.seconds > a.seconds ? b : a), this.lines[0]);
    this.withSamples = plan.devices.filter(d => d.slice_size > 0);
    this.fullest = this.withSamples.map(d => this.programs[d.program]).reduce((a, b) => (b.data.peak_bytes > a.data.peak_bytes ? b : a));
    this.roles = plan.inputs.filter(i => i.role !== 'step state');
  }

  prepare(data, index) {
    const root = new Module('', '');
    const times = data.schedule.length ? this.plan.micro_batches : 1;
    const program = {data, index, root, times, names: deviceNames(data.devices), count: data.devices.length};
    program.roots = rootsOf(data.buffers);
    program.kinds = data.steps.map(s => kindOf(s, data));
    program.modules = data.steps.map((step, s) => this.place(program, step, s));
    return program;
  }

  // How often a step of a phase is done in one step of the training.
  repeats(program, step) { return program.times > 1 && step.phase !== 'prepare' && step.phase !== 'update' ? program.times : 1; }

  place(program, step, s) {
    const times = this.repeats(program, step), path = [program.root];
    for (const name of step.module ?? []) path.push(path.at(-1).child(name));
    for (const module of path) {
      module.order = Math.min(module.order, s);
      module.seconds += step.seconds * times;
      module.flops += step.flops * times;
      module.bytes += step.bytes * times;
      module.count += 1;
    }
    if (path.length > 1) path.at(-1).steps.push(s);
    return path.slice(1);
  }

  prepareLine(t, index) {
    const program = this.programs[t.program];
    const devices = t.devices.map(d => this.plan.devices[d].device);
    return {
      index,
      program,
      devices: t.devices,
      names: deviceNames(devices),
      seconds: t.seconds,
      steps: t.steps,
      micro: t.micro_batches ?? null,
      begins: Float64Array.from(t.begins, v => v * 1e-9),
      ends: Float64Array.from(t.ends, v => v * 1e-9),
    };
  }

  stepName(program, s) {
    const step = program.data.steps[s];
    if (step.kind === 'launch') return step.op;
    if (step.kind === 'slice') return 'slice ' + (this.plan.inputs[step.host]?.name ?? '');
    if (step.kind === 'concat') return 'give ' + (this.plan.outputs[step.host]?.name ?? '');
    return step.kind + ' ' + (this.plan.exchanges[step.exchange]?.name ?? '');
  }

  // Lines of text that tell of a step.
  stepFacts(program, s) {
    const step = program.data.steps[s], facts = [`step ${s}: ${this.stepName(program, s)}`];
    if (step.kernel) facts.push('kernel ' + step.kernel);
    if (step.origin.length)
      facts.push('from ' + step.origin.slice(0, 3).join(', ') + (step.origin.length > 3 ? ` and ${step.origin.length - 3} more` : ''));
    facts.push(secondsText(step.seconds) + (step.measured ? ' measured' : ' estimated'));
    if (step.flops) facts.push(countText(step.flops) + 'FLOP, ' + countText(step.flops / Math.max(step.seconds, 1e-12)) + 'FLOP/s');
    if (step.bytes) facts.push(bytesText(step.bytes) + ' moved');
    return facts;
  }

  // The least time that a step could take on its device, by arithmetic and by memory: null where the device's peaks are not known.
  roof(program, step) {
    const {flops, bandwidth} = program.data.model;
    if (!(bandwidth > 0)) return null;
    const arithmetic = flops > 0 ? step.flops / flops : 0, memory = step.bytes / bandwidth;
    return {seconds: Math.max(arithmetic, memory), by: arithmetic > memory ? 'arithmetic' : 'memory'};
  }
}
