// NCCL and the CUDA runtime as far as a group of ranks calls them, for tests without a GPU. A communicator's calls take
// their time, as those of one that does not block; none has joined before all have, and a sum is done when all ranks of
// the communicator have queued it. An abort ends what waits, and returns once no recorded sum is left (NCCL 2.28's
// commDestroySync waits for the graphs).
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <string>

// What these libraries leave opaque.
struct ncclComm {
  int rank = 0, ranks = 0;
  std::string id;
  int queued = 0, in_progress = 0;  // how often it still says so
  int recorded = 0;                 // sums in graphs
  ncclResult_t state = ncclSuccess;
  enum { lives, finalized, destroyed, aborted } end = lives;
};
struct CUstream_st {
  ncclComm* last = nullptr;  // what was queued
  bool captures = false;
};

namespace tandem::test::nccl {

void reset();
ncclComm& communicator(int rank);      // of the newest group
bool ended(int rank);                  // aborted or destroyed
bool summed(const CUstream_st& stream);  // what was queued on it is done
void replay(int rank);                   // of its recorded sum
void destroy_graph(int rank);            // that holds its recorded sum
int stuck();                             // aborts that waited in vain for their graphs to go
void break_rank(int rank, ncclResult_t state);
int misuses();  // calls with a communicator that is gone, or is destroyed too early

}  // namespace tandem::test::nccl
