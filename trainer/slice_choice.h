// How much of a batch each of several unlike devices takes, where nobody says it.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "trainer/template/model_template.h"

namespace tandem {

// What a slice takes on a device by itself: seconds = fixed + each · samples, above zero both; `most` samples fit in its memory.
struct SliceCost {
  double fixed = 0, each = 0;
  std::int64_t most = 0;
};
// Samples of each device with which the slowest ends soonest; samples are taken off the devices in order. Fails (device) where the devices'
// memory holds fewer than `batch` all together.
std::vector<std::int64_t> shortest_slices(std::span<const SliceCost> costs, std::int64_t batch);
// In the proportion of what fits, which is at least `batch` in all; else fails (device).
std::vector<std::int64_t> slices_by_memory(std::span<const SliceCost> costs, std::int64_t batch);

// Sets the devices' weights as `by` asks, by plans of each kind of device alone: by the times of their kernels where options have
// them timed, else by estimates. A plan that is given, or that a resumed run keeps, says them where its devices and its batch are the
// same. Returns what was chosen, for the user, and which device the step would be shorter without. Fails (usage) with options that
// cut a batch otherwise, (device) where no shares fit.
std::string choose_slices(const ModelTemplate& model, ModelOptions& options, SliceBy by, Backends backends);

}  // namespace tandem
