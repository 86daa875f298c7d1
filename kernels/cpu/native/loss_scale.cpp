// Dynamic loss scaling: AllFinite, LossScale, LossScaleUpdate, ScaledScalars (graph/operators/loss_scale.cpp).
#include <cmath>

#include "graph/step_scalars.h"
#include "graph/updates.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t piece = 65536;  // elements a thread looks through at a time

// Bits: of float32, or of bfloat16, which are its upper half.
template <class Bits>
bool all_finite(const std::byte* from, std::int64_t n) {
  constexpr Bits exponent = static_cast<Bits>(0x7f800000u >> (32 - 8 * sizeof(Bits)));
  const auto* const bits = reinterpret_cast<const Bits*>(from);
  std::uint32_t bad = 0;
  for (std::int64_t i = 0; i < n; ++i) bad |= (bits[i] & exponent) == exponent ? 1u : 0u;
  return bad == 0;
}

class AllFinite final : public Kernel {
 public:
  struct Tensor {
    std::int64_t size;
    bool narrow;  // bfloat16
  };
  AllFinite(std::vector<Tensor> tensors, int threads) : tensors_(std::move(tensors)) {
    std::int64_t total = 0;
    for (const Tensor& t : tensors_) total += t.size;
    parts_ = threads_for(total, threads);
  }
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    pieces_.clear();
    for (std::size_t k = 0; k < tensors_.size(); ++k)
      for (std::int64_t i = 0; i < tensors_[k].size; i += piece)
        pieces_.push_back({inputs[k] + i * (tensors_[k].narrow ? 2 : 4), std::min(piece, tensors_[k].size - i), tensors_[k].narrow});
    finite_ = reinterpret_cast<float*>(outputs[0]);
    found_ = reinterpret_cast<float*>(workspace);
  }
  void run(StreamHandle) override {
    parallel(parts_, [&](int k) {
      const Range r = part_of(static_cast<std::int64_t>(pieces_.size()), k, parts_);
      bool finite = true;
      for (std::int64_t i = r.begin; finite && i < r.end; ++i) {
        const Piece& p = pieces_[static_cast<std::size_t>(i)];
        finite = p.narrow ? all_finite<std::uint16_t>(p.bits, p.n) : all_finite<std::uint32_t>(p.bits, p.n);
      }
      found_[k] = finite ? 1.0F : 0.0F;
    });
    *finite_ = *std::min_element(found_, found_ + parts_);
  }

 private:
  struct Piece {
    const std::byte* bits;
    std::int64_t n;
    bool narrow;
  };
  std::vector<Tensor> tensors_;
  int parts_ = 1;
  std::vector<Piece> pieces_;
  float *finite_ = nullptr, *found_ = nullptr;
};

bool single(const KernelRequest& request) {
  const auto known = [](const Operand& o) { return o.dtype == DType::float32 && !o.layout.opaque(); };
  return std::all_of(request.inputs.begin(), request.inputs.end(), known) && known(request.outputs[0]);
}

}  // namespace

// In whatever layouts the operands lie: their padding is zero.
Descriptions describe_all_finite(const KernelRequest& request) {
  const auto known = [](const Operand& o) { return (o.dtype == DType::float32 || o.dtype == DType::bfloat16) && !o.layout.opaque(); };
  if (!std::all_of(request.inputs.begin(), request.inputs.end(), known)) return {};
  KernelDescription d{.kernel = "native.all_finite", .inputs = request.inputs, .outputs = row_major(request.outputs), .efficiency = 0.5};
  std::vector<AllFinite::Tensor> tensors;
  for (Operand& o : d.inputs) {
    o.layout = layout_or_row_major(o);
    tensors.push_back({physical_elements(o.shape, o.layout), o.dtype == DType::bfloat16});
  }
  const int threads = std::max(1, request.options.threads);
  d.workspace = threads * static_cast<std::int64_t>(sizeof(float));
  d.make = [=]() -> std::unique_ptr<Kernel> { return std::make_unique<AllFinite>(tensors, threads); };
  return {d};
}

Descriptions describe_loss_scale(const KernelRequest& request) {
  if (!single(request)) return {};
  KernelDescription d = row_major_description("native.loss_scale", request, 0.1);
  d.make = make_kernel([start = request.attributes->real("start")](const Memory& m) {
    *m.out<float>(0) = std::ldexp(start, static_cast<int>(m.in<LossScaleState>(0)->exponent));
  });
  return {d};
}

Descriptions describe_loss_scale_update(const KernelRequest& request) {
  if (!single(request)) return {};
  KernelDescription d = row_major_description("native.loss_scale_update", request, 0.1);
  d.in_place = {{0, 0}};
  d.make = make_kernel([interval = static_cast<float>(request.attributes->integer("interval"))](const Memory& m) {
    LossScaleState state = *m.in<LossScaleState>(0);
    state.good += 1;
    if (*m.in<float>(1) == 0) {
      state.exponent -= 1;
      state.skipped += 1;
      state.good = 0;
    } else if (state.good >= interval) {
      state.exponent += 1;
      state.good = 0;
    }
    *m.out<LossScaleState>(0) = state;
  });
  return {d};
}

Descriptions describe_scaled_scalars(const KernelRequest& request) {
  if (!single(request)) return {};
  KernelDescription d = row_major_description("native.scaled_scalars", request, 0.1);
  const Attributes& a = *request.attributes;
  const float start = a.real("start");
  const UpdateNumbers numbers = update_numbers(static_cast<UpdateKind>(a.integer("kind", 0)), a);
  d.make = make_kernel([=](const Memory& m) {
    StepScalars scalars = *m.in<StepScalars>(0);
    const LossScaleState& state = *m.in<LossScaleState>(1);
    const double t = std::max(1.0, static_cast<double>(scalars.step) - static_cast<double>(state.skipped));
    set_step(scalars, numbers.kind, t, numbers.beta1, numbers.beta2);
    scalars.loss_scale = std::ldexp(start, static_cast<int>(state.exponent));
    scalars.skip = *m.in<float>(2) == 0 ? 1.0F : 0.0F;
    *m.out<StepScalars>(0) = scalars;
  });
  return {d};
}

}  // namespace tandem::native
