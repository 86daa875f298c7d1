// Runs a program chunk by chunk: each instruction over a chunk that stays in the first-level cache, each thread its own
// chunks.
#include "kernels/cpu/native/elementwise.h"

namespace tandem::native {
namespace {

// Of one operand: so short that the processor still loads for one instruction while it stores for another, and long enough
// that few instructions begin. Slots do not lie whole pages apart, or what is loaded would seem to be what was just stored.
constexpr std::int64_t chunk_bytes = 4096, slot_gap = 320;
// One instruction alone keeps nothing between instructions: what counts is how rarely it begins.
constexpr std::int64_t long_chunk_bytes = 16384;

struct Loop {
  std::int64_t size, stride;
};

// How an input is read: in place where its memory runs along with the output's; else each chunk of it is gathered into
// scratch, once only where every chunk is alike. A small operand in a layout without the output's padding is first
// brought into one with it (staged), or the padding's lanes would be read from behind its end.
struct Reading {
  bool direct = false;
  bool alike = false;
  std::vector<Loop> loops;    // over the output's memory
  std::int64_t stage = -1;    // offset in the workspace
  Copy staging;
};

struct Slots {
  std::vector<std::int64_t> offset;  // of each operand in a part's scratch; < 0: not there
  std::int64_t bytes = 0;
};

Operand aligned_to(const Operand& in, const Operand& out) {
  Operand wide{in.dtype, Shape(std::vector<std::int64_t>(static_cast<std::size_t>(out.shape.rank()), 1)), out.layout};
  for (int i = 0; i < in.shape.rank(); ++i) wide.shape[out.shape.rank() - in.shape.rank() + i] = in.shape[i];
  return wide;
}

std::vector<Loop> loops_over(const Operand& in, const Operand& out) {
  const std::vector<PhysicalDim> own = physical_dims(in.shape, in.layout);
  const int extra = out.shape.rank() - in.shape.rank();
  std::vector<Loop> loops;
  const std::vector<PhysicalDim> dims = physical_dims(out.shape, out.layout);
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const int axis = dims[k].axis - extra;
    std::int64_t stride = 0;
    if (axis >= 0 && in.shape[axis] != 1) {
      if (in.layout == out.layout) {
        stride = own[k].stride;
      } else {
        for (const PhysicalDim& d : own)
          if (d.axis == axis) stride = d.stride * dims[k].step;
      }
    }
    if (dims[k].size == 1) continue;
    if (!loops.empty() && loops.back().stride == stride * dims[k].size)
      loops.back() = {loops.back().size * dims[k].size, stride};
    else
      loops.push_back({dims[k].size, stride});
  }
  return loops;
}

// After how many elements of the output the operand repeats.
std::int64_t period_of(const std::vector<Loop>& loops) {
  std::int64_t period = 1, size = 1;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    size *= loop->size;
    if (loop->stride != 0) period = size;
  }
  return period;
}

bool needs_padding(const Operand& in, const Operand& out) {
  if (in.layout == out.layout || !has_padding(out.shape, out.layout)) return false;
  const int extra = out.shape.rank() - in.shape.rank();
  for (int axis = 0; axis < out.shape.rank(); ++axis) {
    std::int64_t padded = 1;
    for (const PhysicalDim& d : physical_dims(out.shape, out.layout))
      if (d.axis == axis) padded *= d.size;
    if (padded != out.shape[axis] && axis >= extra && in.shape[axis - extra] != 1) return true;
  }
  return false;
}

// Everything that is known before memory is.
struct Schedule {
  std::int64_t total = 0, chunk = 0, parts = 1, staged = 0;
  std::vector<Reading> readings;
  Slots slots;
  std::vector<int> output_of;  // of each operand: the output it is written to, or −1
};

// Of an operand whose memory does not run along with the output's. `staged`: bytes of scratch that operands are brought to.
Reading gathered(Operand in, const Operand& out, std::int64_t& staged) {
  Reading r;
  if (needs_padding(in, out)) {
    const Operand plain = aligned_to(with_layout(in, Layout::row_major(in.shape.rank())), out);
    std::vector<AxisLoops> axes;
    const int extra = out.shape.rank() - in.shape.rank();
    for (int axis = 0; axis < out.shape.rank(); ++axis)
      axes.push_back(loops_along(plain.shape[axis], axis < extra ? AxisOffsets() : AxisOffsets(in.shape, in.layout, axis - extra),
                                 {plain.shape, out.layout, axis}));
    r.staging = Copy(axes, size_of(in.dtype));
    r.stage = staged;
    staged += to_line(plain.bytes());
    in = plain;
  }
  r.loops = loops_over(in, out);
  return r;
}

// One slot of scratch for every gathered input, and for what is no output a slot from its instruction to its last use.
void assign_slots(const Program& p, Schedule& s, std::int64_t slot) {
  const std::size_t inputs = p.inputs.size(), operands = inputs + p.code.size();
  s.output_of.assign(operands, -1);
  for (std::size_t i = 0; i < p.results.size(); ++i) s.output_of[static_cast<std::size_t>(p.results[i])] = static_cast<int>(i);
  s.slots.offset.assign(operands, -1);
  for (std::size_t i = 0; i < inputs; ++i)
    if (!s.readings[i].direct) {
      s.slots.offset[i] = s.slots.bytes;
      s.slots.bytes += slot;
    }
  std::vector<std::size_t> last_use(operands, 0);
  for (std::size_t j = 0; j < p.code.size(); ++j)
    for (const int a : p.code[j].args)
      if (a >= 0) last_use[static_cast<std::size_t>(a)] = j;
  std::vector<std::int64_t> idle;
  for (std::size_t j = 0; j < p.code.size(); ++j) {
    if (s.output_of[inputs + j] < 0) {
      if (idle.empty()) {
        idle.push_back(s.slots.bytes);
        s.slots.bytes += slot;
      }
      s.slots.offset[inputs + j] = idle.back();
      idle.pop_back();
    }
    // A slot read for the last time here is free from the next instruction on.
    for (std::size_t v = inputs; v < inputs + j; ++v)
      if (s.slots.offset[v] >= 0 && last_use[v] == j) idle.push_back(s.slots.offset[v]);
  }
}

Schedule schedule(const Program& p) {
  const Operand& out = p.outputs[0];
  Schedule s;
  s.total = physical_elements(out.shape, out.layout);
  s.parts = threads_for(s.total, p.threads);
  std::size_t widest = 1;
  for (const Operand& in : p.inputs) widest = std::max(widest, size_of(in.dtype));
  for (const Instruction& code : p.code) widest = std::max(widest, size_of(code.dtype));
  const std::int64_t room = (p.code.size() == 1 ? long_chunk_bytes : chunk_bytes) / static_cast<std::int64_t>(widest);
  s.chunk = room;

  for (const Operand& in : p.inputs) {
    if (s.total == 0 || runs_along(in, out)) {
      s.readings.emplace_back().direct = true;
      continue;
    }
    s.readings.push_back(gathered(in, out, s.staged));
    const std::int64_t period = period_of(s.readings.back().loops);
    if (period <= room) s.chunk = std::min(s.chunk, room / period * period);
  }
  for (Reading& r : s.readings) r.alike = !r.direct && s.chunk % period_of(r.loops) == 0;
  assign_slots(p, s, to_line(s.chunk * static_cast<std::int64_t>(widest)) + slot_gap);
  return s;
}

// Elements [begin, begin + n) of the output's memory as the loops read them, side by side in `to`.
template <class T>
void gather(const T* x, T* y, std::int64_t begin, std::int64_t n, const std::vector<Loop>& loops) {
  if (loops.empty()) {
    std::fill_n(y, n, *x);
    return;
  }
  const Loop inner = loops.back();
  const std::int64_t repeats = loops.size() > 1 && loops[loops.size() - 2].stride == 0 ? loops[loops.size() - 2].size : 1;
  while (n > 0) {
    std::int64_t rest = begin / inner.size;
    const std::int64_t first = begin % inner.size;
    std::int64_t run = std::min(n, inner.size - first);
    std::int64_t offset = first * inner.stride;
    for (std::size_t k = loops.size() - 1; k-- > 0; rest /= loops[k].size) offset += rest % loops[k].size * loops[k].stride;
    if (inner.stride == 0) {
      std::fill_n(y, run, x[offset]);
    } else if (inner.stride == 1) {
      std::memcpy(y, x + offset, static_cast<std::size_t>(run) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < run; ++i) y[i] = x[offset + i * inner.stride];
    }
    // A short row that the next loop repeats (a channel's block along the pixels) is copied from itself, ever longer.
    if (first == 0 && run == inner.size && repeats > 1) {
      const std::int64_t all = std::min(n, (repeats - begin / inner.size % repeats) * inner.size);
      for (; run < all; run = std::min(all, 2 * run))
        std::memcpy(y + run, y, static_cast<std::size_t>(std::min(run, all - run)) * sizeof(T));
    }
    y += run;
    begin += run;
    n -= run;
  }
}

// The padding of an output, of which threads share out the outermost axis where that has none itself.
struct Padding {
  PaddingZero zero;  // of one slice
  std::int64_t slices = 1, bytes = 0;

  explicit Padding(const Operand& out) : zero(out) {
    if (!zero.needed()) return;
    const PhysicalDim outermost = physical_dims(out.shape, out.layout)[0];
    if (outermost.size != out.shape[outermost.axis]) return;
    Operand slice = out;
    slice.shape[outermost.axis] = 1;
    zero = PaddingZero(slice);
    slices = outermost.size;
    bytes = outermost.stride * static_cast<std::int64_t>(size_of(out.dtype));
  }
  void run(std::byte* memory, int threads) const {
    const int parts = static_cast<int>(std::clamp<std::int64_t>(slices, 1, threads));
    parallel(parts, [&](int part) {
      const Range mine = part_of(slices, part, parts);
      for (std::int64_t i = mine.begin; i < mine.end; ++i) zero.run(memory + i * bytes);
    });
  }
};

class ElementwiseKernel final : public Kernel {
 public:
  explicit ElementwiseKernel(const Program& program) : p_(program), s_(schedule(program)) {
    for (const Operand& out : p_.outputs) padding_.emplace_back(out);
    const std::size_t operands = p_.inputs.size() + p_.code.size();
    base_.resize(static_cast<std::size_t>(s_.parts) * operands);
    now_.resize(base_.size());
    for (const Operand& in : p_.inputs) bytes_.push_back(static_cast<std::int64_t>(size_of(in.dtype)));
    for (const Instruction& code : p_.code) bytes_.push_back(static_cast<std::int64_t>(size_of(code.dtype)));
    advance_ = bytes_;
    for (std::size_t v = 0; v < operands; ++v)
      if (s_.slots.offset[v] >= 0) advance_[v] = 0;
  }

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    inputs_.assign(inputs.begin(), inputs.end());
    outputs_.assign(outputs.begin(), outputs.end());
    stage_ = workspace;
    const std::size_t operands = bytes_.size();
    for (std::size_t part = 0; part < static_cast<std::size_t>(s_.parts); ++part)
      for (std::size_t v = 0; v < operands; ++v) {
        std::byte*& at = base_[part * operands + v];
        if (s_.slots.offset[v] >= 0)
          at = workspace + s_.staged + static_cast<std::int64_t>(part) * s_.slots.bytes + s_.slots.offset[v];
        else
          at = s_.output_of[v] >= 0 ? outputs[static_cast<std::size_t>(s_.output_of[v])] : inputs[v];
      }
  }

  void run(StreamHandle) override {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (s_.readings[i].stage >= 0) s_.readings[i].staging.run(inputs_[i], stage_ + s_.readings[i].stage, 1);
    const std::int64_t chunks = (s_.total + s_.chunk - 1) / s_.chunk;
    parallel(static_cast<int>(s_.parts), [&](int part) { run_chunks(part, part_of(chunks, part, static_cast<int>(s_.parts))); });
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (padding_[i].zero.needed()) padding_[i].run(outputs_[i], static_cast<int>(s_.parts));
  }

 private:
  void run_chunks(int part, Range chunks) {
    const std::size_t inputs = inputs_.size(), operands = bytes_.size();
    std::byte* const* const base = base_.data() + static_cast<std::size_t>(part) * operands;
    std::byte** const at = now_.data() + static_cast<std::size_t>(part) * operands;
    for (std::int64_t c = chunks.begin; c < chunks.end; ++c) {
      const std::int64_t begin = c * s_.chunk, n = std::min(s_.chunk, s_.total - begin);
      for (std::size_t v = 0; v < operands; ++v) at[v] = base[v] + begin * advance_[v];
      for (std::size_t i = 0; i < inputs; ++i) {
        const Reading& r = s_.readings[i];
        if (r.direct || (r.alike && c != chunks.begin)) continue;
        const std::byte* const from = r.stage >= 0 ? stage_ + r.stage : inputs_[i];
        visit_size(static_cast<std::size_t>(bytes_[i]), [&]<class T>() {
          gather(reinterpret_cast<const T*>(from), reinterpret_cast<T*>(at[i]), begin, r.alike ? s_.chunk : n, r.loops);
        });
      }
      for (std::size_t j = 0; j < p_.code.size(); ++j) {
        const Instruction& code = p_.code[j];
        const auto arg = [&](int k) { return code.args[k] < 0 ? nullptr : at[code.args[k]]; };
        code.run(at[inputs + j], arg(0), arg(1), arg(2), n, code.params);
      }
    }
  }

  Program p_;
  Schedule s_;
  std::vector<Padding> padding_;
  std::vector<std::int64_t> bytes_, advance_;  // of an element of each operand; in its memory (0 in scratch)
  std::vector<std::byte*> inputs_, outputs_, base_, now_;
  std::byte* stage_ = nullptr;
};

}  // namespace

bool runs_along(const Operand& in, const Operand& out) {
  if (is_broadcast(in, out.shape)) return false;
  return in.shape.rank() == out.shape.rank() ? in.layout == out.layout : in.layout.is_row_major() && out.layout.is_row_major();
}

bool is_broadcast(const Operand& in, const Shape& out) {
  const int extra = out.rank() - in.shape.rank();
  for (int i = 0; i < extra; ++i)
    if (out[i] != 1) return true;
  for (int i = 0; i < in.shape.rank(); ++i)
    if (in.shape[i] != out[i + extra]) return true;
  return false;
}

std::int64_t workspace_of(const Program& program) {
  const Schedule s = schedule(program);
  return s.staged + s.parts * s.slots.bytes;
}

std::unique_ptr<Kernel> kernel_of(const Program& program) { return std::make_unique<ElementwiseKernel>(program); }

}  // namespace tandem::native
