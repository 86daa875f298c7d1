// A pass: a graph in, an equivalent one out, nodes in topological order. A plan's graph comes about by running a list of them in order
// (planner/passes/run_passes.h).
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/options.h"
#include "planner/rewrite/fusing.h"

namespace tandem {

struct Labels;
using Losses = std::vector<Labels>;

// What a list works for: the batch, on one device or on several.
struct PassContext {
  const CompileOptions& options;
  std::int64_t samples = 0;            // of the graph
  const Losses* losses = nullptr;      // of training
  std::optional<PlacementRequest> placement{};  // where there are several devices
  Fuses fuses{};                       // which nodes the backends of the plan offer in place of several
  const Plan* parameters_of = nullptr; // a plan whose parameters this one reads
  std::vector<std::string> warnings{}; // found on the way
  std::vector<PlanTransfer> transfers{};  // that were put in, the dearest first

  bool training() const { return options.mode == PlanMode::training; }
  // Tells who listens why two neighbours, in a form that a pass fuses, stay two nodes.
  void not_fused(const Node& first, const Node& second, std::string why) const {
    if (options.passes.not_fused) options.passes.not_fused({first, second, std::move(why)});
  }
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
class Properties {
 public:
  constexpr Properties(std::initializer_list<Property> list = {}) {
    for (const Property p : list) bits_ |= static_cast<unsigned>(p);
  }
  constexpr bool has(Property p) const { return (bits_ & static_cast<unsigned>(p)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr Properties with(Properties other) const { return of(bits_ | other.bits_); }
  constexpr Properties without(Properties other) const { return of(bits_ & ~other.bits_); }

 private:
  static constexpr Properties of(unsigned bits) {
    Properties p;
    p.bits_ = bits;
    return p;
  }
  unsigned bits_ = 0;
};
// What a graph for predictions never has: there it is not asked for either.
inline constexpr Properties of_training{Property::loss, Property::gradients, Property::updated};
inline constexpr Properties differentiated{Property::primitive, Property::loss, Property::gradients};

// Each pass stands in a file of its own, with a function in pass_rows that returns its row; planner/passes/rows.inc names them in order.
struct Pass {
  std::string_view name;                          // that of the function
  Graph (*run)(Graph graph, PassContext& context) = nullptr;
  Properties needs{};                             // hold before; it may not run without them
  Properties gives{};                             // hold after it
  Properties ends{};                              // hold before, not after
  bool (*when)(const PassContext&) = nullptr;     // null: always
  std::string_view why{};                         // what the plan gains by it, for people
  std::string_view required{};                    // why no plan can be without it; what gives a property is required, too
};

}  // namespace tandem
