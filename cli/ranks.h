// Several processes that train one plan together: who this one is among them, and starting them on one machine.
#pragma once
#include <memory>
#include <optional>

#include "cli/command.h"
#include "kernels/world.h"

namespace tandem {

std::vector<OptionRow> rank_rows();  // --rank, --world-size, --address, --rank-timeout, --processes

// From the flags and the environment (Open MPI's, MPICH's, Slurm's, torchrun's); none where this process is alone.
// Fails (usage) where something is missing.
std::optional<WorldOptions> world_options(const Invocation& call);

// What every rank must have been started with alike.
std::vector<World::Fact> facts_of(const Arguments& arguments);

// Starts this program anew as each of --processes ranks and waits for them; passes SIGINT and SIGTERM on. Returns the
// exit code of the rank that failed of itself, or what they agree on.
int run_processes(int processes);

}  // namespace tandem
