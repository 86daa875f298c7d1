// After a step every rank has what every device wrote to the host. A few ranks give it to each other over lines of their own, in one
// message to each; two ranks, and more than can hold a line to each other, give it along the chain.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "kernels/member_exchange.h"
#include "runtime/program.h"

namespace tandem {

class OutputExchange {
 public:
  // Called by every rank alike, for the outputs of one plan. `devices`: of each rank. `own`: where those of this rank write. `bytes`: of
  // each output. Fails (communication) as the World does.
  OutputExchange(World& world, int devices, std::vector<Program::HostPart> own, std::vector<std::int64_t> bytes);
  // `outputs` hold what this rank's devices wrote, and all of it afterwards; null ones are not wanted. Fails as above.
  void run(std::span<std::byte* const> outputs);

 private:
  void connect(int devices);
  void along_chain(std::span<std::byte* const> outputs);

  World& world_;
  const std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> starts_;                   // along the chain: of each output
  std::vector<std::vector<Program::HostPart>> parts_;  // by rank; of this rank alone where they go along the chain
  std::vector<std::byte> exchanged_;                   // by pairs: the ranks' parts; along the chain: the outputs
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<Kernel> gather_;                     // null: along the chain
};

}  // namespace tandem
