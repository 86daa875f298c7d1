// Several processes that run one plan together: who this one is among them, and starting them on one machine.
#pragma once
#include <optional>

#include "cli/command.h"
#include "ranks/world.h"
#include "trainer/model.h"

namespace tandem {

// From the flags and the environment (Open MPI's, MPICH's, Slurm's, torchrun's); none where this process is alone.
// Fails (usage) where something is missing.
std::optional<WorldOptions> world_options(const Invocation& call);

// Runs `job` alone (its world is null), or as the rank of several that world_options() tells, with only rank 0's streams
// open; or starts --processes ranks and waits for them. What goes wrong in one rank the others hear of, and none ends
// before all are done.
struct RankStart {
  std::int64_t restarts = 0;  // of run_processes()
  bool one_for_each_gpu = false;  // where nothing is said of processes: usual_processes()
};
int on_ranks(const Invocation& call, int (*job)(const Invocation&, World* world), const RankStart& start = {});

// What a rank ends with whose failure rank 0 tells, where all write to one terminal: said once is enough.
struct ToldByFirst : std::exception {
  explicit ToldByFirst(ExitCode c) : code(c) {}
  const char* what() const noexcept override { return "told by rank 0"; }
  ExitCode code;
};

// Starts this program anew as each of --processes ranks and waits for them; passes on the signals that ask to end. They end
// with this process, however it ends. Returns the exit code of the rank that failed of itself, or what they agree on. Where a rank is lost,
// but not by a signal to this process, all are started again, at most `restarts` times, to go on from the last checkpoint.
int run_processes(int processes, std::int64_t restarts);

// Parts of such jobs. A null world: this process is alone.
bool is_first(const World* world);  // the one that writes
// For agree_on(): the model's structure and what the data hold, as hashes.
World::Fact template_fact(const Model& model, const Invocation& call);
World::Fact data_fact(const std::string& name, const Dataset* data);
Model load_model(const std::filesystem::path& path, World* world, const WeightOptions& weights = {});
// Fails (communication) where a rank has found other facts or has backends that compute otherwise.
void agree_on(World* world, std::vector<World::Fact> facts, const std::vector<DeviceSpec>& devices, const BackendSet& backends);

}  // namespace tandem
