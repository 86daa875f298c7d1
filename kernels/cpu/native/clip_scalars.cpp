// ClipScalars (graph/operators/updates.cpp): the norm of all gradients, and what they are multiplied by so that it keeps to its limit.
#include <cmath>

#include "graph/step_scalars.h"
#include "graph/updates.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t piece = 16384;  // elements a thread takes at a time

struct Tensor {
  std::int64_t size;
  bool narrow;  // bfloat16
};

template <class T>
class ClipScalars final : public Kernel {
 public:
  ClipScalars(std::vector<Tensor> tensors, double limit, int threads) : tensors_(std::move(tensors)), limit_(limit) {
    std::int64_t total = 0;
    for (const Tensor& t : tensors_) total += t.size;
    parts_ = threads_for(total, threads);
  }
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    scalars_ = reinterpret_cast<const StepScalars*>(inputs[0]);
    now_ = reinterpret_cast<StepScalars*>(outputs[0]);
    pieces_.clear();
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const auto [size, narrow] = tensors_[t];
      const std::int64_t element = narrow ? sizeof(std::uint16_t) : sizeof(T);
      for (std::int64_t i = 0; i < size; i += piece) pieces_.push_back({inputs[1 + t] + i * element, narrow, std::min(piece, size - i)});
    }
    sums_.assign(pieces_.size(), 0);
  }
  void run(StreamHandle) override {
    const StepScalars& s = *scalars_;
    *now_ = s;
    const auto squares = vector_table().of<T>().updates->squares;
    parallel(parts_, [&](int k) {
      const Range r = part_of(static_cast<std::int64_t>(pieces_.size()), k, parts_);
      for (std::int64_t i = r.begin; i < r.end; ++i) {
        const Piece& p = pieces_[static_cast<std::size_t>(i)];
        sums_[static_cast<std::size_t>(i)] = squares(p.g, p.narrow, p.n);
      }
    });
    double sum = 0;
    for (const double x : sums_) sum += x;
    const double norm = std::sqrt(sum) / static_cast<double>(s.loss_scale);
    if (std::isfinite(norm)) now_->clip = static_cast<float>(std::min(1.0, limit_ / (norm + 1e-6)));
  }

 private:
  struct Piece {
    const std::byte* g;
    bool narrow;
    std::int64_t n;
  };
  std::vector<Tensor> tensors_;
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
  // gradients of float32 may be bfloat16
  const DType dtype = request.inputs[1].dtype == DType::bfloat16 ? DType::float32 : request.inputs[1].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  std::vector<Tensor> tensors;
  for (std::size_t k = 1; k < d.inputs.size(); ++k) {
    Operand& o = d.inputs[k];
    const bool narrow = dtype == DType::float32 && o.dtype == DType::bfloat16;
    if ((o.dtype != dtype && !narrow) || o.layout.opaque()) return {};
    o.layout = layout_or_row_major(o);
    tensors.push_back({physical_elements(o.shape, o.layout), narrow});
  }
  const int threads = std::max(1, request.options.threads);
  visit_float(dtype, [&]<class T>() {
    d.make = [=, limit = numbers.clip_norm]() -> std::unique_ptr<Kernel> {
      return std::make_unique<ClipScalars<T>>(tensors, limit, threads);
    };
  });
  return {d};
}

}  // namespace tandem::native
