// Passes as a list: each takes a graph and leaves an equivalent one, and a plan's graph comes about by running them in order.
// The lists stand in training.cpp and inference.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/options.h"
#include "planner/passes/fusing.h"
#include "planner/passes/labels.h"

namespace tandem {

// What a list works for: the batch, on one device or on several.
struct PassContext {
  const CompileOptions& options;
  std::int64_t samples = 0;            // of the graph
  std::span<const Labels> losses{};    // of training
  std::optional<PlacementRequest> placement;  // where there are several devices
  Fuses fuses;                         // which nodes the backends of the plan offer in place of several
  const Plan* parameters_of = nullptr; // a plan whose parameters this one reads
  std::vector<std::string> warnings;   // found on the way

  bool placed() const { return placement.has_value(); }
  bool synchronized() const { return placed() && options.synchronize_batch_norm; }
};

// What may hold of a graph beyond what verify() asks of any.
enum class Property : unsigned {
  primitive = 1,   // kernels know every operator
  loss = 2,        // there is one output that is the loss, a scalar
  gradients = 4,   // the gradients of parameters are outputs, in the parameters' shapes
  whole = 8,       // what updates read is that of the whole batch, not of this device's part
  updated = 16,    // updates stand last, the optimizer's write each parameter once, and no gradient is left for them to take
};
constexpr unsigned operator|(Property a, Property b) { return static_cast<unsigned>(a) | static_cast<unsigned>(b); }
constexpr unsigned operator|(unsigned a, Property b) { return a | static_cast<unsigned>(b); }
constexpr unsigned operator+(Property a) { return static_cast<unsigned>(a); }
// Why it does not hold; empty where it does.
std::string breach_of(Property property, const Graph& graph, const PassContext& context);

struct Pass {
  std::string_view name;
  Graph (*run)(Graph graph, PassContext& context);
  unsigned needs = 0;  // properties that hold before and after; it may not run without them
  unsigned gives = 0;  // hold after it
  unsigned ends = 0;   // hold before, not after
  bool (*when)(const PassContext&) = nullptr;  // null: always
};

std::span<const Pass> training_passes();
std::span<const Pass> inference_passes();

// Runs a list. With options.verify_passes, and in debug builds, the graph and all that is said to hold are checked behind every pass; a breach names the
// pass. Calls options.after_pass behind each, and for the graph it begins with (number 0, "model").
Graph run_passes(std::span<const Pass> passes, Graph graph, PassContext& context);

}  // namespace tandem
