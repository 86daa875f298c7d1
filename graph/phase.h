// When in a step something is done, where a step works through its batch in micro-batches.
#pragma once
#include <cstdint>
#include <string_view>

namespace tandem {

enum class Phase : std::uint8_t {
  prepare,   // once a step, before the first micro-batch: what follows from parameters alone
  forward,   // of a micro-batch: what its loss and other outputs follow from
  backward,  // of a micro-batch: gradients of activations; of parameters, too, where the schedule has no phase `weights`
  weights,   // of a micro-batch: gradients of parameters
  update,    // once a step, behind the last micro-batch: sums over devices, and the optimizer
};
inline constexpr int phases = 5;
constexpr bool is_of_micro_batch(Phase p) { return p != Phase::prepare && p != Phase::update; }
std::string_view name_of(Phase phase);

// A micro-batch goes through a phase of a chunk of layers. Where a schedule does not split the backward pass, `backward` is all of it.
struct ScheduleEntry {
  Phase phase = Phase::forward;  // forward, backward or weights
  int chunk = 0;
  int micro_batch = 0;
  int slot = 0;                  // where its activations lie: free again after the micro-batch's last entry of the chunk
  bool operator==(const ScheduleEntry&) const = default;
};

}  // namespace tandem
