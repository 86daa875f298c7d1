// What an evaluation takes of a batch on the host: the numbers that its plan tells of each sample, labels, and weights by which means
// are taken, as the training graph's losses have them.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/loss/labels.h"

namespace tandem {

// A batch of a value on the host and its labels.
struct Measured {
  DType dtype;              // of the value
  const std::byte* values;  // labels.value's; null where the plan does not give it
  const std::byte* given;   // labels as labels.sample says; null where there are none
  std::int64_t samples;     // the first so many count
  const float* weights = nullptr;  // of samples
  std::int64_t top = 0;            // LossOutputs::top, and what it asks for
  const std::int64_t* classes = nullptr;
  std::vector<double> likelihoods{};  // by sample; empty: not asked for
};
// What a loss sees at a time: the classes of a place, the last axis, else all of a sample.
struct Place {
  std::int64_t sample;
  std::span<const double> x, t;  // logits, labels
  std::int64_t label = -1;       // class index; -1: t has no single one that is a class
  bool ignored = false;
};
void each_place(const Labels& labels, const Measured& batch, const std::function<void(const Place&)>& each);
// The class of each place that counts, of losses that have classes: of dense labels the largest one's. `each(place, class)`.
void each_class(const Labels& labels, const Measured& batch, const std::function<void(std::int64_t, std::int64_t)>& each);

// Whether every label that is a class index and counts names a class: what else one costs is not a number.
bool names_classes(const Labels& labels, const Measured& batch);

// What the mean over a batch is divided by, and what means of batches are weighted by wherever they become one mean: the steps' batches,
// those of an epoch, of an evaluation. Each place that has a loss counts by its sample's weight times its label's; one that is ignored
// by 0. `given`: labels, `weights`: of samples; null where there are none.
double loss_weight(const Labels& labels, const std::byte* given, const float* weights, std::int64_t samples);
// Without it all batches of as many samples are divided by the same.
bool weight_depends_on_data(const Labels& labels);

}  // namespace tandem
