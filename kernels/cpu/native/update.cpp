// Optimizer updates over all tensors at once, in place and in the parameters' own layouts (padding stays zero: there
// all operands are).
#include "graph/step_scalars.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t piece = 16384;  // elements a thread takes at a time

struct Rule {
  std::string_view op;
  std::string_view kernel;
  int states;         // with momentum
  bool may_lack_one;  // no momentum: one state less
};
constexpr Rule rules[] = {
    {"SgdUpdate", "native.sgd", 1, true},
    {"AdamUpdate", "native.adam", 2, false},
    {"RmspropUpdate", "native.rmsprop", 2, true},
};

template <class T>
vector::Update<T> function_of(std::string_view op) {
  const vector::Updates<T>& all = *vector_table().of<T>().updates;
  return op == "SgdUpdate" ? all.sgd : op == "AdamUpdate" ? all.adam : all.rmsprop;
}

vector::UpdateNumbers numbers_of(const Attributes& a) {
  return {.rate = 0, .correction1 = 1, .correction2 = 1, .unscale = 1,
          .weight_decay = static_cast<double>(a.real("weight_decay", 0.0F)),
          .momentum = static_cast<double>(a.real("momentum", 0.0F)),
          .beta1 = static_cast<double>(a.has("rho") ? a.real("rho") : a.real("beta1", 0.0F)),
          .beta2 = static_cast<double>(a.real("beta2", 0.0F)),
          .epsilon = static_cast<double>(a.real("epsilon", 0.0F)),
          .nesterov = a.integer("nesterov", 0) != 0,
          .decoupled = a.integer("decoupled", 0) != 0};
}

template <class T>
class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(vector::Update<T> function, vector::UpdateNumbers numbers, std::vector<std::int64_t> sizes, int states, int threads)
      : function_(function), numbers_(numbers), sizes_(std::move(sizes)), states_(states) {
    std::int64_t total = 0;
    for (const std::int64_t n : sizes_) total += n;
    parts_ = threads_for(total, threads);
  }

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    scalars_ = reinterpret_cast<const StepScalars*>(inputs[0]);
    copies_.clear();
    pieces_.clear();
    const std::size_t in = static_cast<std::size_t>(states_) + 2, out = in - 1;
    for (std::size_t t = 0; t < sizes_.size(); ++t) {
      const std::byte* const g = inputs[1 + t * in + 1];
      std::byte* kept[3] = {};  // w, states
      for (std::size_t k = 0; k < out; ++k) {
        kept[k] = outputs[t * out + k];
        const std::byte* const from = inputs[1 + t * in + (k == 0 ? 0 : k + 1)];
        if (from != kept[k]) copies_.push_back({from, kept[k], sizes_[t] * static_cast<std::int64_t>(sizeof(T))});
      }
      const auto at = [](auto* p, std::int64_t i) { return p ? reinterpret_cast<std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(p)>>, const T*, T*>>(p) + i : nullptr; };
      for (std::int64_t i = 0; i < sizes_[t]; i += piece)
        pieces_.push_back({at(kept[0], i), at(g, i), at(kept[1], i), at(kept[2], i), std::min(piece, sizes_[t] - i)});
    }
  }

  void run(StreamHandle) override {
    for (const CopyOf& c : copies_) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.bytes));
    if (scalars_->skip != 0) return;
    vector::UpdateNumbers numbers = numbers_;
    numbers.rate = static_cast<double>(scalars_->learning_rate);
    numbers.correction1 = static_cast<double>(scalars_->correction1);
    numbers.correction2 = static_cast<double>(scalars_->correction2);
    numbers.unscale = 1 / static_cast<double>(scalars_->loss_scale);
    parallel(parts_, [&](int k) {
      const Range r = part_of(static_cast<std::int64_t>(pieces_.size()), k, parts_);
      for (std::int64_t i = r.begin; i < r.end; ++i) {
        const Piece& p = pieces_[static_cast<std::size_t>(i)];
        function_(p.w, p.g, p.first, p.second, p.n, numbers);
      }
    });
  }

 private:
  struct Piece {
    T* w;
    const T* g;
    T *first, *second;
    std::int64_t n;
  };
  struct CopyOf {  // of a state that the plan does not keep in place
    const std::byte* from;
    std::byte* to;
    std::int64_t bytes;
  };
  vector::Update<T> function_;
  vector::UpdateNumbers numbers_;
  std::vector<std::int64_t> sizes_;
  int states_, parts_ = 1;
  const StepScalars* scalars_ = nullptr;
  std::vector<Piece> pieces_;
  std::vector<CopyOf> copies_;
};

}  // namespace

Descriptions describe_update(const KernelRequest& request) {
  const auto rule = std::find_if(std::begin(rules), std::end(rules), [&](const Rule& r) { return r.op == request.op; });
  const auto tensors = static_cast<std::size_t>(request.attributes->integer("tensors"));
  if (rule == std::end(rules) || tensors == 0 || request.inputs[0].dtype != DType::float32) return {};
  const bool momentum = !rule->may_lack_one || request.attributes->real("momentum", 0.0F) != 0;
  const int states = momentum ? rule->states : rule->states - 1;
  const std::size_t in = static_cast<std::size_t>(states) + 2, out = in - 1;
  if (request.inputs.size() != 1 + tensors * in || request.outputs.size() != tensors * out) return {};

  KernelDescription d{.kernel = std::string(rule->kernel), .inputs = request.inputs, .outputs = request.outputs, .efficiency = 0.5};
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
  const vector::UpdateNumbers numbers = numbers_of(*request.attributes);
  const int threads = request.options.threads;
  visit_float(dtype, [&]<class T>() {
    d.make = [=, function = function_of<T>(request.op)]() -> std::unique_ptr<Kernel> {
      return std::make_unique<UpdateKernel<T>>(function, numbers, sizes, states, threads);
    };
  });
  return {d};
}

}  // namespace tandem::native
