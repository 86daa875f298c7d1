// NCCL and the CUDA runtime as far as a group of ranks calls them, for tests without a GPU. It is stricter than NCCL:
//   - a call is done when all that take part have queued theirs, and moves numbers of the host;
//   - what a rank has queued is done in its order, whatever communicators and streams it is of, so that ranks which queue exchanges in
//     different orders wait for each other for ever;
//   - members that call otherwise (another kind, count, type or root), memory that a call may not share, a call outside a group that only
//     a group can do, and a call with a communicator that is gone, has not joined or is busy are misuses.
// Communicators do not block. An abort ends what waits, and returns once no recorded call is left (NCCL 2.28's commDestroySync waits for
// the graphs).
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <string>

// What these libraries leave opaque.
struct ncclComm {
  int rank = 0, ranks = 0;
  std::string id;
  int process = 0;                  // the rank whose queue its calls go to: the number of its device
  int queued = 0, in_progress = 0;  // how often it still says so
  int recorded = 0;                 // calls in graphs
  int collectives = 0;              // that it was called for
  ncclResult_t state = ncclSuccess;
  enum { lives, finalized, destroyed, aborted } end = lives;
};
struct CUstream_st {
  int process = 0;        // the rank whose stream it is
  bool captures = false;
};

namespace tandem::test::nccl {

void reset();
ncclComm& communicator(int rank);        // of all ranks, of the newest group
int communicators();                     // that were made
bool ended(int rank);                    // aborted or destroyed
bool is_done(const CUstream_st& stream);   // what was queued on it
void replay(CUstream_st& stream);          // of what was recorded on it
void destroy_graph(CUstream_st& stream);   // that was recorded on it
int stuck();                             // aborts that waited in vain for their graphs to go
void break_rank(int rank, ncclResult_t state);
int misuses();
std::string misuse();  // the first

}  // namespace tandem::test::nccl
