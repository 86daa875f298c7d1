#include "cli/mpi_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/json.h"
#include "base/option.h"
#include "base/printable.h"
#include "cli/interrupt.h"
#include "cli/rank_flags.h"
#include "ranks/hello.h"
#include "ranks/own_address.h"
#include "trainer/records/run_folder.h"

namespace tandem {
namespace {

// What an MPI's own starter sets; the first row that is there counts.
struct Starter {
  const char *variable, *also, *kind, *name;
};
constexpr Starter starters[] = {
    {"OMPI_COMM_WORLD_RANK", "", "openmpi", "Open MPI"},
    {"PMI_RANK", "PMI_FD", "mpich", "MPICH"},
    {"PMIX_RANK", "", "openmpi", "Open MPI"},
};

const Starter* starter_of(const Invocation& call) {
  const auto has = [&](const char* name) { return *name == '\0' || call.environment(name); };
  const auto found = std::ranges::find_if(starters, [&](const Starter& s) { return has(s.variable) && has(s.also); });
  return found == std::end(starters) ? nullptr : found;
}

[[noreturn]] void refuse_to_begin(const std::string& why) {
  fail(ExitCode::usage, why, "; ", option("address"), " HOST:PORT, where rank 0 listens, with ", option("collectives"),
       " tcp needs no MPI");
}

// Both kinds of library take a rank that the other one's mpirun started for a run of its own.
void check_count(const Mpi& mpi, const WorldOptions& o) {
  if (mpi.ranks() == o.ranks && mpi.rank() == o.rank) return;
  refuse_to_begin(concat(mpi.library(), " sees rank ", mpi.rank(), " of ", mpi.ranks(), ", the environment says rank ", o.rank, " of ",
                         o.ranks, ": the mpirun of another MPI started it, or a run inside another; start it with that of ",
                         mpi.library()));
}

// What rank 0 says, in all ranks.
std::string share(Mpi& mpi, const std::string& own, double timeout_seconds) {
  FixedText<256> text(own);
  if (!mpi.broadcast(std::as_writable_bytes(std::span(text.bytes)), timeout_seconds))
    fail(ExitCode::communication, "waited ", timeout_seconds, " s for rank 0's address by ", mpi.library());
  return text.text();
}

}  // namespace

bool may_use_mpi(const Invocation& call) {
  const Collectives asked = call.arguments[rank_flags.collectives];
  return (asked == Collectives::automatic || asked == Collectives::mpi) && starter_of(call);
}

bool is_started_by_mpi(const Invocation& call) {
  return starter_of(call);
}

void tell_words_at_once(World& world, const std::filesystem::path& run) {
  world.on_word([&world, run](const std::string& reason) {
    Interrupt::be_silent();
    if (world.first_knows()) return;  // rank 0 tells
    if (!run.empty()) {
      const std::filesystem::path whole = run / run_end_name, part = run / concat('.', run_end_name, ".told");
      std::ofstream(part) << Json(Json::Object{{"state", "failed"}, {"error", reason}}).dump() << '\n';
      std::error_code error;
      std::filesystem::rename(part, whole, error);
    }
    const std::string line = concat("note: ", printable(reason), ", so that this run ends\n");
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nobody reads
  });
}

Mpi* enter_mpi(const Invocation& call, WorldOptions& o) {
  const bool asked = call.arguments[rank_flags.collectives] == Collectives::mpi;
  if (!asked && !(o.address.empty() && may_use_mpi(call))) return nullptr;
  const Starter* const starter = starter_of(call);
  if (!starter)
    refuse_to_begin(
        "--collectives mpi: no MPI started this process (Open MPI sets OMPI_COMM_WORLD_RANK or PMIX_RANK, MPICH PMI_RANK and PMI_FD)");
  std::string reason;
  Mpi* const mpi = open_mpi(starter->kind, reason);
  if (!mpi) refuse_to_begin(concat(starter->name, " started this process, but the module for it cannot be opened: ", reason));
  check_count(*mpi, o);

  const bool one_machine = mpi->ranks_here() == o.ranks;
  if (o.secret.empty()) o.secret = share(*mpi, drawn_text(), o.timeout_seconds);
  if (o.address.empty()) {
    o.share = [mpi, seconds = o.timeout_seconds](const std::string& own) { return share(*mpi, own, seconds); };
    if (o.rank == 0) o.address = one_machine ? concat("unix:@tandem-", drawn_text()) : to_string(Address{own_address(), "0"});
  }
  if (asked || !one_machine) o.mpi = mpi;
  if (o.rank == 0)
    call.say(concat(
        "note: ", mpi->library(), " started ", o.ranks, " ranks", one_machine ? " on this machine" : "", ": ",
        o.mpi ? "it carries what devices exchange" : "own lines carry what devices exchange", " (--collectives tcp or mpi)",
        o.share && !one_machine ? concat("; control lines come to ", o.address.substr(0, o.address.rfind(':')), " (--address)") : ""));
  return mpi;
}

}  // namespace tandem
