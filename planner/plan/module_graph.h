// A plan folded: the modules of each class of devices, and what passes between them. What pictures of placement are drawn from.
#pragma once
#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

struct ModuleGraph {
  struct Box {
    std::string name;  // "layer1", or "relu .. layer4" for several in a row
    ProgramId program;
    std::size_t steps = 0;
    double seconds = 0;  // of a device's step, all micro-batches together
  };
  struct Edge {  // forward: what a later box reads of a former one of the same program
    std::size_t from = 0, to = 0;
    std::int64_t bytes = 0;  // of a device
  };
  struct Meeting {  // exchanges of one kind among the same programs
    ExchangeKind kind = ExchangeKind::all_reduce;
    std::vector<ProgramId> programs;  // the first is that of the one that gives, or of the first member
    bool gradients = false;
    std::size_t count = 0;
    std::int64_t bytes = 0;  // of whole values
    double seconds = 0;
    bool directed() const { return kind == ExchangeKind::send || kind == ExchangeKind::broadcast; }
  };
  std::vector<Box> boxes;  // by program, each in the order of its first step
  std::vector<Edge> edges;
  std::vector<Meeting> meetings;
};
// At most so many boxes a program: modules open as far as that allows.
ModuleGraph module_graph(const Plan& plan, std::size_t most = 16);

// "all_reduce ×3: 97.5 MiB of gradients"
std::string text_of(const ModuleGraph::Meeting& meeting);
// "cpu:0-7, 32 of 256 samples each"
std::string title_of(const Plan& plan, ProgramId program);
// "x float32[256,3,32,32], sliced by samples", of the host's inputs but the runtime's own.
std::string text_of(const HostInput& input);
// Which programs read a host input, or give a host output.
std::vector<ProgramId> takers_of(const Plan& plan, std::size_t input);
std::vector<ProgramId> givers_of(const Plan& plan, std::size_t output);

}  // namespace tandem
