// Optimizer updates over all tensors at once, in place and in the parameters' own layouts (padding stays zero: there
// all operands are).
#include <cmath>
#include <limits>

#include "graph/step_scalars.h"
#include "graph/updates.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

static_assert(vector::kinds_of_update == update_kinds);

constexpr std::int64_t piece = 16384;  // elements a thread takes at a time

// Of one step, for all tensors.
vector::UpdateFactors factors_of(const UpdateNumbers& n, const StepScalars& s) {
  double rate = static_cast<double>(s.epoch) < n.from ? 0 : static_cast<double>(s.learning_rate) * n.rate;
  if (n.kind == UpdateKind::assign) rate = static_cast<double>(s.epoch) < n.from ? 0 : 1;
  if (n.rate_decay != 0) rate /= 1 + (static_cast<double>(s.step) - 1) * n.rate_decay;
  return {.rate = rate,
          .correction1 = static_cast<double>(s.correction1), .correction2 = static_cast<double>(s.correction2),
          .factor1 = static_cast<double>(s.factor1), .factor2 = static_cast<double>(s.factor2),
          .unscale = static_cast<double>(s.clip) / static_cast<double>(s.loss_scale),
          .bound = n.clip_value > 0 ? n.clip_value : std::numeric_limits<double>::infinity(),
          .weight_decay = n.weight_decay, .momentum = n.momentum, .dampening = s.step <= 1 ? 0 : n.dampening,
          .beta1 = n.beta1, .beta2 = n.beta2, .epsilon = n.epsilon,
          .nesterov = n.nesterov, .decoupled = n.decoupled};
}

// What the norms make of a tensor's rate; sums: of the squares of its weights and of its step, or gradient.
double trust_of(const UpdateNumbers& n, const double* sums) {
  const double weight = std::sqrt(sums[0]), step = std::sqrt(sums[1]);
  if (!(weight > 0) || !(step > 0)) return 1;
  return n.kind == UpdateKind::lars ? n.trust * weight / (step + n.weight_decay * weight + n.epsilon) : weight / step;
}

template <class T>
class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(const UpdateNumbers& numbers, std::vector<std::int64_t> sizes, int threads)
      : functions_(*vector_table().of<T>().updates), numbers_(numbers), sizes_(std::move(sizes)) {
    std::int64_t total = 0;
    for (const std::int64_t n : sizes_) total += n;
    parts_ = threads_for(total, threads);
  }

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    scalars_ = reinterpret_cast<const StepScalars*>(inputs[0]);
    copies_.clear();
    pieces_.clear();
    const std::size_t out = 1 + static_cast<std::size_t>(numbers_.states), in = out + 1;
    for (std::size_t t = 0; t < sizes_.size(); ++t) {
      const auto kept = [&](std::size_t k) { return reinterpret_cast<T*>(outputs[t * out + k]); };  // the weight, then the states
      for (std::size_t k = 0; k < out; ++k) {
        const std::byte* const from = inputs[1 + t * in + (k == 0 ? 0 : k + 1)];
        if (from != outputs[t * out + k]) copies_.push_back({from, outputs[t * out + k], sizes_[t] * static_cast<std::int64_t>(sizeof(T))});
      }
      const T* const g = reinterpret_cast<const T*>(inputs[1 + t * in + 1]);
      for (std::int64_t i = 0; i < sizes_[t]; i += piece) {
        Piece p{.part = {.w = kept(0) + i, .g = g + i, .state = {}, .n = std::min(piece, sizes_[t] - i)}, .gradient = g + i, .tensor = t};
        std::size_t k = 1;
        for (const UpdateState& s : numbers_.own) p.part.state[s.slot] = kept(k++) + i;
        if (numbers_.accumulate) p.sum = kept(k++) + i;
        if (numbers_.average) p.average = kept(k++) + i;
        if (p.sum) p.part.g = p.sum;
        pieces_.push_back(p);
      }
    }
    sums_.assign(2 * pieces_.size(), 0);
    factors_.resize(sizes_.size());
  }

  void run(StreamHandle) override {
    for (const CopyOf& c : copies_) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.bytes));
    const StepScalars& s = *scalars_;
    if (numbers_.accumulate) each([&](Piece& p, double*) { functions_.accumulate(p.sum, p.gradient, p.part.n, static_cast<double>(s.share), s.fresh != 0); });
    if ((s.hold != 0 || s.skip != 0) && !numbers_.always) return;
    const auto kind = static_cast<std::size_t>(numbers_.kind);
    std::fill(factors_.begin(), factors_.end(), factors_of(numbers_, s));
    if (numbers_.clip_norm > 0) {
      each([&](Piece& p, double* sums) { sums[0] = functions_.squares(p.part.g, nullptr, 0, p.part.n); });
      by_tensor([&](std::size_t t, const double* sums) {
        const double norm = std::sqrt(sums[0]) * factors_[t].unscale;
        factors_[t].unscale *= std::min(1.0, numbers_.clip_norm / (norm + 1e-6));
      });
    }
    if (functions_.measure[kind]) {
      each([&](Piece& p, double* sums) { functions_.measure[kind](p.part, factors_[p.tensor], sums); });
      by_tensor([&](std::size_t t, const double* sums) { factors_[t].rate *= trust_of(numbers_, sums); });
    }
    each([&](Piece& p, double*) {
      functions_.apply[kind](p.part, factors_[p.tensor]);
      if (p.average) functions_.average(p.average, p.part.w, p.part.n, static_cast<double>(s.average));
    });
  }

 private:
  struct Piece {
    vector::Updated<T> part;
    const T* gradient = nullptr;  // of this batch; that of the step is in `part`
    T *sum = nullptr, *average = nullptr;
    std::size_t tensor = 0;
  };
  struct CopyOf {  // of a state that the plan does not keep in place
    const std::byte* from;
    std::byte* to;
    std::int64_t bytes;
  };

  template <class Work>
  void each(const Work& work) {
    parallel(parts_, [&](int k) {
      const Range r = part_of(static_cast<std::int64_t>(pieces_.size()), k, parts_);
      for (std::int64_t i = r.begin; i < r.end; ++i) {
        double* const sums = &sums_[2 * static_cast<std::size_t>(i)];
        sums[0] = sums[1] = 0;
        work(pieces_[static_cast<std::size_t>(i)], sums);
      }
    });
  }
  // Sums go from piece to piece in order, whatever the number of threads.
  template <class Work>
  void by_tensor(const Work& work) {
    for (std::size_t i = 0; i < pieces_.size();) {
      const std::size_t t = pieces_[i].tensor;
      double sums[2] = {};
      for (; i < pieces_.size() && pieces_[i].tensor == t; ++i)
        for (std::size_t k = 0; k < 2; ++k) sums[k] += sums_[2 * i + k];
      work(t, sums);
    }
  }

  const vector::Updates<T>& functions_;
  UpdateNumbers numbers_;
  std::vector<std::int64_t> sizes_;
  int parts_ = 1;
  const StepScalars* scalars_ = nullptr;
  std::vector<Piece> pieces_;
  std::vector<double> sums_;                     // two a piece
  std::vector<vector::UpdateFactors> factors_;   // by tensor
  std::vector<CopyOf> copies_;
};

}  // namespace

Descriptions describe_update(const KernelRequest& request) {
  const UpdateRow* const row = find_update(request.op);
  const auto tensors = static_cast<std::size_t>(request.attributes->integer("tensors"));
  if (!row || tensors == 0 || request.inputs[0].dtype != DType::float32) return {};
  const UpdateNumbers numbers = update_numbers(row->kind, *request.attributes);
  const std::size_t out = 1 + static_cast<std::size_t>(numbers.states), in = out + 1;
  if (numbers.copies || request.inputs.size() != 1 + tensors * in || request.outputs.size() != tensors * out) return {};

  KernelDescription d{.kernel = std::string(row->kernel), .inputs = request.inputs, .outputs = request.outputs, .efficiency = 0.5};
  d.inputs[0] = row_major(d.inputs[0]);
  const DType dtype = request.inputs[1].dtype;
  std::vector<std::int64_t> sizes;
  for (std::size_t t = 0; t < tensors; ++t) {
    // All of a tensor's operands lie as the parameter does, or, where that is still open, as its gradient.
    const Operand &w = request.inputs[1 + t * in], &g = request.inputs[2 + t * in];
    const Layout layout = w.layout.any() ? layout_or_row_major(g) : w.layout;
    for (std::size_t k = 0; k < in; ++k) {
      Operand& operand = d.inputs[1 + t * in + k];
      if (operand.dtype != dtype) return {};
      operand.layout = layout;
      if (k == 1) continue;
      const std::size_t o = t * out + (k == 0 ? 0 : k - 1);
      d.outputs[o].layout = layout;
      d.in_place.push_back({static_cast<int>(o), static_cast<int>(1 + t * in + k)});
    }
    sizes.push_back(physical_elements(w.shape, layout));
  }
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const int threads = request.options.threads;
  visit_float(dtype, [&]<class T>() {
    d.make = [=]() -> std::unique_ptr<Kernel> { return std::make_unique<UpdateKernel<T>>(numbers, sizes, threads); };
  });
  return {d};
}

}  // namespace tandem::native
