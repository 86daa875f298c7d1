#include "kernels/cuda/cublas/padded.h"

#include <algorithm>

#include "kernels/cuda/cublas/ways.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/pitch.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t in_eight = 8, element = 2;           // numbers of 16 bytes; bytes
constexpr std::int64_t part_bytes = std::int64_t{1} << 27;  // of the padded memory: a part keeps a device busy
constexpr std::int64_t least_elements = 1 << 20;

std::int64_t padded(std::int64_t numbers) {
  return ceil_div(numbers, in_eight) * in_eight;
}

// Parts of so many samples, or, of the weights' gradient, outputs, all alike: the last ends with the last one, and may compute some of
// the one before again.
std::int64_t part_of(Padded which, const PaddedSizes& s) {
  const bool by_outputs = which == Padded::gradients_of_weights;
  const std::int64_t whole = by_outputs ? s.outputs : s.samples, other = by_outputs ? s.samples : padded(s.outputs),
                     most = std::max<std::int64_t>(part_bytes / element / other / 128 * 128, 128);
  return most >= whole ? whole : padded(ceil_div(whole, ceil_div(whole, most)));
}

Gemm gemm_of(Padded which, const PaddedSizes& s, std::int64_t part, DType dtype) {
  Gemm g{.dtype = dtype, .alignment = 16};
  switch (which) {
    case Padded::outputs:  // yᵀ[O,n] = w[O,K]·xᵀ[K,n]
      g.m = padded(s.outputs), g.n = part, g.k = s.inner, g.transpose_a = true;
      break;
    case Padded::gradients:  // dxᵀ[K,n] = wᵀ[K,O]·dyᵀ[O,n]
      g.m = s.inner, g.n = part, g.k = padded(s.outputs);
      break;
    case Padded::gradients_of_weights:  // dwᵀ[K,o] = xᵀ[K,N]·dy[N,o]
      g.m = s.inner, g.n = part, g.k = s.samples, g.transpose_b = true, g.ld_b = padded(part);
      break;
  }
  return g;
}

// The scores of a part, and, before them, w with rows of zeros, where it takes part.
struct Scratch {
  std::int64_t weights, scores;  // bytes
  Scratch(Padded which, const PaddedSizes& s, std::int64_t part)
      : weights(which == Padded::gradients_of_weights ? 0 : align_up(element * padded(s.outputs) * s.inner)),
        scores(align_up(element * (which == Padded::gradients_of_weights ? s.samples * padded(part) : part * padded(s.outputs)))) {}
  std::int64_t bytes() const { return weights + scores; }
};

struct Part {
  Launches before, after;
  const std::byte *a, *b;
  std::byte* d;
};

class PaddedKernel final : public Kernel {
 public:
  PaddedKernel(Padded which, const PaddedSizes& sizes, std::int64_t part, std::unique_ptr<GemmPlan> plan, Binder after)
      : which_(which), s_(sizes), part_(part), plan_(std::move(plan)), after_(std::move(after)) {}

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    workspace_ = workspace;
    const Scratch scratch(which_, s_, part_);
    weights_ = workspace + gemm_workspace;
    std::byte* const scores = weights_ + scratch.weights;
    first_ = {};
    if (scratch.weights > 0)
      first_ = pitch_copy({1, s_.outputs * s_.inner, s_.outputs * s_.inner, padded(s_.outputs) * s_.inner}, inputs[1], weights_);
    const std::int64_t whole = which_ == Padded::gradients_of_weights ? s_.outputs : s_.samples;
    parts_.clear();
    for (std::int64_t first = 0; first < whole; first += part_)
      parts_.push_back(part(std::min(first, whole - part_), inputs, outputs[0], scores));
    if (after_) last_ = after_({{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, weights_ + scratch.bytes()});
  }
  void run(StreamHandle stream) override {
    if (first_) first_(stream.native);
    for (const Part& p : parts_) {
      if (p.before) p.before(stream.native);
      plan_->run(p.a, p.b, p.d, workspace_, stream.native);
      if (p.after) p.after(stream.native);
    }
    if (last_) last_(stream.native);
  }

 private:
  Part part(std::int64_t first, std::span<std::byte* const> inputs, std::byte* output, std::byte* padded_scores) const {
    const std::int64_t rows = element * first * s_.inner, scores = element * first * s_.outputs, pitch = padded(s_.outputs);
    switch (which_) {
      case Padded::outputs:
        return {{},
                pitch_copy({part_, s_.outputs, pitch, s_.outputs}, padded_scores, output + scores),
                weights_,
                inputs[0] + rows,
                padded_scores};
      case Padded::gradients:
        return {pitch_copy({part_, s_.outputs, s_.outputs, pitch}, inputs[0] + scores, padded_scores),
                {},
                weights_,
                padded_scores,
                output + rows};
      case Padded::gradients_of_weights:
        return {pitch_copy({s_.samples, part_, s_.outputs, padded(part_)}, inputs[1] + element * first, padded_scores),
                {},
                inputs[0],
                padded_scores,
                output + rows};
    }
    return {};
  }

  Padded which_;
  PaddedSizes s_;
  std::int64_t part_;
  std::unique_ptr<GemmPlan> plan_;
  Binder after_;
  Launches first_, last_;
  std::vector<Part> parts_;
  std::byte *workspace_ = nullptr, *weights_ = nullptr;
};

}  // namespace

bool gains_by_padding(const PaddedSizes& s, DType dtype) {
  return size_of(dtype) == element && s.outputs % in_eight != 0 && s.inner % in_eight == 0 && s.samples % in_eight == 0 &&
         s.samples * s.outputs >= least_elements && s.outputs * s.inner < std::int64_t{1} << 30;
}

std::vector<KernelDescription> describe_padded(Padded which, const KernelDescription& d, const KernelRequest& request,
                                               const PaddedSizes& sizes, Binder after, std::int64_t own_workspace, Libraries& libraries) {
  const std::int64_t part = part_of(which, sizes);
  Gemm gemm = gemm_of(which, sizes, part, d.inputs[0].dtype);
  gemm.deterministic = request.options.deterministic;
  const double flops = 2.0 * static_cast<double>(sizes.samples) * static_cast<double>(sizes.inner) * static_cast<double>(sizes.outputs);
  std::vector<KernelDescription> all;
  for (const GemmWay& way : ways_to_run(gemm, d.kernel + ".padded", request, libraries.cublaslt_at_hand(request))) {
    KernelDescription& k = all.emplace_back(d);
    k.kernel = way.kernel;
    k.workspace = gemm_workspace + Scratch(which, sizes, part).bytes() + own_workspace;
    k.efficiency = slowed(product_efficiency * speed_of_products(libraries.device(), gemm.dtype, false), flops,
                          3 * element * sizes.samples * sizes.outputs, libraries.device().model);
    k.make = [=, &libraries]() -> std::unique_ptr<Kernel> {
      return std::make_unique<PaddedKernel>(which, sizes, part, prepare(gemm, way, libraries.cublaslt()).plan, after);
    };
  }
  return all;
}

}  // namespace tandem::cuda
