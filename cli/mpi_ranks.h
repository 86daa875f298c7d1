// Ranks that an MPI started: which one, its module, and how rank 0's address comes to the others without --address.
#pragma once
#include <filesystem>

#include "cli/command.h"
#include "ranks/mpi.h"
#include "ranks/world.h"

namespace tandem {

// Whether MPI may tell the ranks where rank 0 listens: one started this process, and --collectives does not leave it out.
bool may_use_mpi(const Invocation& call);
bool is_started_by_mpi(const Invocation& call);

// mpirun ends all ranks as soon as one has ended: a reason that comes from another is written at once, to the run's folder (empty: there is
// none) where this rank speaks for all, then to stderr. After that SIGTERM is answered with nothing.
void tell_words_at_once(World& world, const std::filesystem::path& run);

// Enters MPI where --collectives or a missing address asks for it, and completes the options. Null: it has no part. The pointer is that
// of open_mpi(). Fails (usage) where it is asked for and cannot be had, or counts other ranks than the environment.
Mpi* enter_mpi(const Invocation& call, WorldOptions& options);

}  // namespace tandem
