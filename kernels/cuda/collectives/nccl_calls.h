// What one member of an exchange calls NCCL for.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <vector>

#include "kernels/collective.h"

namespace tandem::cuda {

// One call. Offsets are in bytes: of what the member gives (from), of what it gets (to).
struct NcclCall {
  enum Op { all_reduce, reduce_scatter, all_gather, reduce, broadcast, send, receive } op;
  std::int64_t from = 0, to = 0;
  std::int64_t count = 0;  // elements of a sum, bytes of what only moves
  int peer = 0;            // root, or the other end, as the communicator numbers its ranks
};

// Whether an exchange uses the communicator of all ranks. Exchanges among some ranks have a communicator of their members, but for a send,
// which any communicator can do. Calls of one communicator run in the order in which they are queued, whatever their streams.
bool uses_all(const ExchangeSpec& spec, int ranks);
// The calls of member `self`. Equal parts are one collective call, unequal parts are a call each. Fails (communication) where sizes do not
// add up, and for a sum of a type that is no floating-point type.
std::vector<NcclCall> nccl_calls(const ExchangeSpec& spec, std::size_t self, int ranks);
// Queues the calls; several are one group. `gives` and `gets`: the member's memory, null where it has none.
ncclResult_t queue(std::span<const NcclCall> calls, const ExchangeSpec& spec, const std::byte* gives, std::byte* gets, ncclComm_t comm,
                   cudaStream_t stream);

}  // namespace tandem::cuda
