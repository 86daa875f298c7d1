#include "cli/ranks.h"

#include <algorithm>

#include "trainer/spec.h"

namespace tandem {
namespace {

// Where those who start processes say which is which.
struct Launcher {
  const char *name, *rank, *ranks;
};
constexpr Launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};
constexpr const char *host_variable = "MASTER_ADDR", *port_variable = "MASTER_PORT";

// Options that are each rank's own matter, and those whose effect is compared in another way.
constexpr std::string_view own_options[] = {"model", "data", "output", "also-training-graph", "json", "quiet", "tuning-cache", "overwrite"};

std::string variable(const Invocation& call, const char* name) {
  const char* value = call.environment(name);
  return value ? value : "";
}

int whole(const std::string& text, const std::string& what) {
  const std::int64_t value = parse_integer(text, what);
  constexpr std::int64_t most = 1 << 20;
  if (value < 0 || value > most) fail(ExitCode::usage, what, ": expected 0 to ", most, ", got ", value);
  return static_cast<int>(value);
}

}  // namespace

std::vector<OptionRow> rank_rows() {
  return {
      {"processes", "N", "", "start N ranks on this machine, each with its share of --devices"},
      {"rank", "N", "", "which rank this process is (mpirun, srun and torchrun tell by themselves)"},
      {"world-size", "N", "", "how many ranks there are"},
      {"address", "HOST:PORT", "", "where rank 0 listens, or unix:PATH (default $MASTER_ADDR:$MASTER_PORT)"},
      {"rank-timeout", "SECONDS", "120", "how long to wait for another rank"},
  };
}

std::optional<WorldOptions> world_options(const Invocation& call) {
  const Arguments& a = call.arguments;
  std::string rank = a.text("rank"), ranks = a.text("world-size"), told_by = "--rank and --world-size";
  if (rank.empty() != ranks.empty()) fail(ExitCode::usage, "--", rank.empty() ? "rank" : "world-size", " is missing: --rank and --world-size go together");
  for (const Launcher& l : launchers) {
    if (!rank.empty()) break;
    rank = variable(call, l.rank), ranks = variable(call, l.ranks), told_by = concat(l.name, "'s ", l.rank, " and ", l.ranks);
    if (rank.empty() || ranks.empty()) rank.clear();
  }
  if (rank.empty()) return std::nullopt;
  WorldOptions o{.rank = whole(rank, told_by), .ranks = whole(ranks, told_by), .address = a.text("address")};
  if (o.ranks <= 1) return std::nullopt;
  if (o.rank >= o.ranks) fail(ExitCode::usage, told_by, ": rank ", o.rank, " of ", o.ranks, " ranks, which count from 0");
  if (const std::string host = variable(call, host_variable), port = variable(call, port_variable); o.address.empty() && !host.empty() && !port.empty())
    o.address = concat(host, ':', port);
  if (o.address.empty())
    fail(ExitCode::usage, "rank ", o.rank, " of ", o.ranks, " (by ", told_by, ") has no address: give --address HOST:PORT, where rank 0 listens");
  o.timeout_seconds = a.number("rank-timeout");
  if (o.timeout_seconds <= 0) fail(ExitCode::usage, "--rank-timeout ", o.timeout_seconds, ": expected more than 0");
  return o;
}

std::vector<World::Fact> facts_of(const Arguments& a) {
  std::vector<World::Fact> facts{{"program version", TANDEM_VERSION}, {"resume", a.on("resume") ? "on" : "off"}};
  const Json resolved = a.resolved();
  for (const auto& [name, value] : resolved.object()) {
    if (std::find(std::begin(own_options), std::end(own_options), name) != std::end(own_options)) continue;
    facts.push_back({name, name == "run-dir" ? "given" : value.dump()});  // its place is rank 0's matter
  }
  return facts;
}

}  // namespace tandem
