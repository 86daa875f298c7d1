// Mixing the samples of a batch: Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018, and Yun et al., "CutMix", 2019,
// as torchvision.transforms.v2 has them: each sample with the one before it, the first with the last.
#pragma once
#include <cstdint>
#include <span>

#include "data/image.h"
#include "data/stream.h"

namespace tandem {

// How one batch is mixed.
struct Mix {
  bool cut = false;              // a box of the sample before it, instead of a share of all of it
  double lambda = 1;             // what of a sample stays
  double across = 0, down = 0;   // where the box's middle lies, 0 to 1

  // Empty where lambda leaves nothing of the sample before.
  Box box(std::int64_t height, std::int64_t width) const;
  // What of a sample's label stays: of a box, what it leaves of such an image.
  double share(std::int64_t height, std::int64_t width) const;
};

// lambda from Beta(alpha, alpha). Where both alphas are positive one of the two is drawn.
Mix draw_mix(double mixup_alpha, double cutmix_alpha, Random& random);
double draw_beta(double alpha, Random& random);

// to = share · to + (1 - share) · before, in float32.
template <class T>
void blend(std::span<T> to, std::span<const T> before, double share) {
  const auto keeps = static_cast<T>(share), takes = static_cast<T>(1 - share);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = before[i] * takes + to[i] * keeps;
}

}  // namespace tandem
