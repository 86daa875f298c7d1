// Optimizer updates over all tensors at once, in place and in the parameters' own layouts (padding stays zero: there
// all operands are). A gradient may be bfloat16, and a copy in that be kept beside
// the weight.
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

struct Tensor {
  std::int64_t size;
  bool narrow;  // its gradient is bfloat16
};

// Of one tensor: the weight, its states, its copy.
std::size_t outputs_of(const UpdateNumbers& n) { return 1 + static_cast<std::size_t>(n.states) + (n.copies ? 1 : 0); }

template <class T>
class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(const UpdateNumbers& numbers, std::vector<Tensor> tensors, int parts)
      : functions_(*vector_table().of<T>().updates), numbers_(numbers), tensors_(std::move(tensors)), parts_(parts) {}

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    scalars_ = reinterpret_cast<const StepScalars*>(inputs[0]);
    moved_.clear();
    pieces_.clear();
    const std::size_t out = outputs_of(numbers_), in = out + 1;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::int64_t size = tensors_[t].size;
      const auto kept = [&](std::size_t k) { return reinterpret_cast<T*>(outputs[t * out + k]); };  // the weight, then the states
      for (std::size_t k = 0; k < out; ++k) {
        const std::byte* const from = inputs[1 + t * in + (k == 0 ? 0 : k + 1)];
        const bool is_copy = numbers_.copies && k + 1 == out;
        if (from != outputs[t * out + k])
          moved_.push_back({from, outputs[t * out + k], size * static_cast<std::int64_t>(is_copy ? sizeof(std::uint16_t) : sizeof(T))});
      }
      const std::byte* const g = inputs[1 + t * in + 1];
      const bool narrow = tensors_[t].narrow;
      const std::int64_t gradient_size = narrow ? sizeof(std::uint16_t) : sizeof(T);
      for (std::int64_t i = 0; i < size; i += piece) {
        Piece p{.part = {.w = kept(0) + i,
                         .g = g + i * gradient_size,
                         .narrow = narrow,
                         .copy = nullptr,
                         .state = {},
                         .n = std::min(piece, size - i)},
                .tensor = t};
        std::size_t k = 1;
        for (const UpdateState& s : numbers_.own) p.part.state[s.slot] = kept(k++) + i;
        if (numbers_.average) p.average = kept(k++) + i;
        if (numbers_.copies) p.part.copy = reinterpret_cast<std::uint16_t*>(outputs[t * out + k]) + i;
        pieces_.push_back(p);
      }
    }
    sums_.assign(2 * pieces_.size(), 0);
    factors_.resize(tensors_.size());
  }

  void run(StreamHandle) override {
    for (const Moved& c : moved_) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.bytes));
    const StepScalars& s = *scalars_;
    if (s.skip != 0) return;
    const auto kind = static_cast<std::size_t>(numbers_.kind);
    std::fill(factors_.begin(), factors_.end(), factors_of(numbers_, s));
    if (numbers_.clip_norm > 0) {
      each([&](Piece& p, double* sums) { sums[0] = functions_.squares(p.part.g, p.part.narrow, p.part.n); });
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
    T* average = nullptr;
    std::size_t tensor = 0;
  };
  struct Moved {  // a state that the plan does not keep in place
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
  std::vector<Tensor> tensors_;
  int parts_ = 1;
  const StepScalars* scalars_ = nullptr;
  std::vector<Piece> pieces_;
  std::vector<double> sums_;                     // two a piece
  std::vector<vector::UpdateFactors> factors_;   // by tensor
  std::vector<Moved> moved_;
};

}  // namespace

Descriptions describe_update(const KernelRequest& request) {
  const UpdateRow* const row = find_update(request.op);
  const UpdateOperands operands(*request.attributes, request.inputs.size());
  if (!row || operands.tensors == 0 || request.inputs[0].dtype != DType::float32) return {};
  const UpdateNumbers numbers = update_numbers(row->kind, *request.attributes);
  const std::size_t out = outputs_of(numbers), in = out + 1;
  if (request.inputs.size() != 1 + operands.tensors * in || request.outputs.size() != operands.tensors * out) return {};

  KernelDescription d{.kernel = std::string(row->kernel), .inputs = request.inputs, .outputs = request.outputs, .efficiency = 0.5};
  d.inputs[0] = row_major(d.inputs[0]);
  const DType dtype = request.inputs[1].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const DType narrow = dtype == DType::float32 ? DType::bfloat16 : dtype;  // what a gradient may be, and a copy is
  std::vector<Tensor> all;
  std::int64_t total = 0;
  for (std::size_t t = 0; t < operands.tensors; ++t) {
    // All of a tensor's operands lie as the parameter does, or, where that is still open, as its copy, or its gradient.
    const Operand &w = request.inputs[operands.at(t)], &g = request.inputs[operands.at(t, UpdateOperands::gradient)];
    const Operand& last = request.inputs[operands.at(t, in - 1)];
    const bool follows_copy = numbers.copies && !last.layout.any();
    const Layout layout = !w.layout.any() ? w.layout : follows_copy ? last.layout : layout_or_row_major(g);
    for (std::size_t k = 0; k < in; ++k) {
      Operand& operand = d.inputs[operands.at(t, k)];
      const bool is_copy = numbers.copies && k + 1 == in;
      if (operand.dtype != (is_copy ? narrow : dtype) && !(k == 1 && operand.dtype == narrow)) return {};
      operand.layout = layout;
      if (k == 1) continue;
      const std::size_t o = t * out + (k == 0 ? 0 : k - 1);
      d.outputs[o].layout = layout;
      d.in_place.push_back({static_cast<int>(o), static_cast<int>(operands.at(t, k))});
    }
    all.push_back({physical_elements(w.shape, layout), g.dtype != dtype});
    total += all.back().size;
  }
  if (numbers.copies && dtype != DType::float32) return {};
  const int parts = threads_for(total, request.options.threads);
  visit_float(dtype, [&]<class T>() {
    d.make = [=]() -> std::unique_ptr<Kernel> { return std::make_unique<UpdateKernel<T>>(numbers, all, parts); };
  });
  return {d};
}

}  // namespace tandem::native
