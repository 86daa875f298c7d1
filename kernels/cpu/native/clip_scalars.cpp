// ClipScalars (graph/operators/updates.cpp): the norm of all gradients, and what they are multiplied by so that it keeps to its limit.
#include <cmath>

#include "graph/step_scalars.h"
#include "graph/updates.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t piece = 16384;  // elements a thread takes at a time

template <class T>
class ClipScalars final : public Kernel {
 public:
  ClipScalars(std::vector<std::int64_t> sizes, bool accumulate, double limit, int threads) : sizes_(std::move(sizes)), accumulate_(accumulate), limit_(limit) {
    std::int64_t total = 0;
    for (const std::int64_t n : sizes_) total += n;
    parts_ = threads_for(total, threads);
  }
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    scalars_ = reinterpret_cast<const StepScalars*>(inputs[0]);
    now_ = reinterpret_cast<StepScalars*>(outputs[0]);
    pieces_.clear();
    const std::size_t stride = accumulate_ ? 2 : 1;
    const auto at = [&](std::size_t k, std::int64_t i) { return reinterpret_cast<const T*>(inputs[k]) + i; };
    for (std::size_t t = 0; t < sizes_.size(); ++t)
      for (std::int64_t i = 0; i < sizes_[t]; i += piece)
        pieces_.push_back({at(1 + t * stride, i), accumulate_ ? at(2 + t * stride, i) : nullptr, std::min(piece, sizes_[t] - i)});
    sums_.assign(pieces_.size(), 0);
  }
  void run(StreamHandle) override {
    const StepScalars& s = *scalars_;
    *now_ = s;
    if (s.hold != 0) return;
    const auto squares = vector_table().of<T>().updates->squares;
    parallel(parts_, [&](int k) {
      const Range r = part_of(static_cast<std::int64_t>(pieces_.size()), k, parts_);
      for (std::int64_t i = r.begin; i < r.end; ++i) {
        const Piece& p = pieces_[static_cast<std::size_t>(i)];
        const bool sum = p.sum && s.fresh == 0;
        sums_[static_cast<std::size_t>(i)] = sum ? squares(p.sum, false, p.g, static_cast<double>(s.share), p.n) : squares(p.g, false, nullptr, 0, p.n);
      }
    });
    double sum = 0;
    for (const double x : sums_) sum += x;
    const double norm = std::sqrt(sum) / static_cast<double>(s.loss_scale);
    if (std::isfinite(norm)) now_->clip = static_cast<float>(std::min(1.0, limit_ / (norm + 1e-6)));
  }

 private:
  struct Piece {
    const T *g, *sum;  // sum: of the step's batches before, null where every batch is a step
    std::int64_t n;
  };
  std::vector<std::int64_t> sizes_;
  bool accumulate_;
  double limit_;
  int parts_ = 1;
  const StepScalars* scalars_ = nullptr;
  StepScalars* now_ = nullptr;
  std::vector<Piece> pieces_;
  std::vector<double> sums_;
};

}  // namespace

// In whatever layouts the operands lie: their padding is zero.
Descriptions describe_clip_scalars(const KernelRequest& request) {
  const UpdateNumbers numbers = update_numbers(UpdateKind::sgd, *request.attributes);
  if (request.inputs.size() < 2) return {};
  KernelDescription d{.kernel = "native.clip_scalars", .inputs = request.inputs, .outputs = row_major(request.outputs), .efficiency = 0.5};
  d.inputs[0] = row_major(d.inputs[0]);
  const DType dtype = request.inputs[1].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const std::size_t stride = numbers.accumulate ? 2 : 1;
  std::vector<std::int64_t> sizes;
  for (std::size_t k = 1; k < d.inputs.size(); ++k) {
    Operand& o = d.inputs[k];
    const bool first = (k - 1) % stride == 0;
    if (o.dtype != dtype || o.layout.opaque()) return {};
    if (first) o.layout = layout_or_row_major(!o.layout.any() || stride == 1 ? o : request.inputs[k + 1]);
    else o.layout = d.inputs[k - 1].layout;
    if (first) sizes.push_back(physical_elements(o.shape, o.layout));
  }
  const int threads = std::max(1, request.options.threads);
  visit_float(dtype, [&]<class T>() {
    d.make = [=, accumulate = numbers.accumulate, limit = numbers.clip_norm]() -> std::unique_ptr<Kernel> { return std::make_unique<ClipScalars<T>>(sizes, accumulate, limit, threads); };
  });
  return {d};
}

}  // namespace tandem::native
