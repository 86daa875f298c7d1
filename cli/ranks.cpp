#include "cli/ranks.h"

#include <algorithm>

#include "base/file_descriptor.h"
#include "base/spec.h"
#include "cli/chosen_devices.h"
#include "cli/mpi_ranks.h"
#include "cli/rank_flags.h"
#include "options/device_flags.h"
#include "options/train_flags.h"

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
constexpr const char* secret_variable = "TANDEM_SECRET";  // a command line is seen by all users of a machine, an environment is not
constexpr std::size_t shortest_secret = 16, longest_secret = 4096;  // bytes: what is short can be guessed by who hears its hash
constexpr const char* port_taken_variable = "TORCHELASTIC_USE_AGENT_STORE";  // True: torchrun itself listens at that port

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

// Where the launcher says that rank 0 may listen: at the next port where it listens at its own itself. Empty: it does not say.
std::string launchers_address(const Invocation& call) {
  const std::string host = variable(call, host_variable), port = variable(call, port_variable);
  if (host.empty() || port.empty()) return "";
  if (variable(call, port_taken_variable) != "True") return concat(host, ':', port);
  constexpr int last = 65535;
  const int taken = whole(port, port_variable);
  return concat(host, ':', taken < last ? taken + 1 : taken - 1);
}

// What the ranks of a run know and nobody else; empty: nothing.
std::string secret_of(const Invocation& call) {
  const std::string path = call.arguments[rank_flags.secret_file];
  std::string secret = variable(call, secret_variable), told_by = secret_variable;
  if (!path.empty()) {
    told_by = concat("--secret-file ", path);
    secret = read_regular(path, longest_secret, ExitCode::usage);
    while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  }
  if ((secret.empty() && path.empty()) || secret.size() >= shortest_secret) return secret;
  fail(ExitCode::usage, told_by, ": a secret of ", secret.size(), " bytes, expected at least ", shortest_secret,
       " (openssl rand -hex 32 makes one)");
}

// What every rank must have been started with alike.
std::vector<World::Fact> facts_of(const Arguments& a) {
  std::vector<World::Fact> facts{{"program version", TANDEM_VERSION},
                                 {"resume", a.text(record_flags.resume)},
                                 {std::string(rank_flags.collectives.name), a.text(rank_flags.collectives)},
                                 {std::string(device_flags.devices.name), a.text(device_flags.devices)}};
  const Json resolved = a.resolved(is_alike_on_ranks);
  for (const auto& [name, value] : resolved.object()) {
    if (name == model_file.name || name == device_flags.devices.name) continue;  // what is in it is compared, what it means here
    // its place is rank 0's matter
    facts.push_back({name, name == record_flags.run_dir.name && value.dump() != "\"none\"" ? "given" : value.dump()});
  }
  return facts;
}

int run_as_rank(const Invocation& call, WorldOptions options, int (*job)(const Invocation&, World*)) {
  options.note = [&](const std::string& note) { call.say("note: " + note); };
  if (options.rank == 0 && call.arguments[rank_flags.address].empty() && variable(call, port_taken_variable) == "True")
    call.say(concat("note: torchrun listens at port ", variable(call, port_variable), " itself: rank 0 listens at ", options.address,
                    " (--address names another)"));
  std::ostream nowhere(nullptr);
  Streams silent{call.streams.in, nowhere, nowhere};
  World world(options);
  try {
    world.agree(facts_of(call.arguments));
    const int code = job({call.arguments, is_first(&world) ? call.streams : silent, call.environment}, &world);
    world.leave();
    return code;
  } catch (const Error& e) {
    world.stop(e.what());
    // Who starts ranks by their environment lets them write to one place; who gives flags may look at each.
    const bool one_terminal = call.arguments[rank_flags.rank].empty();
    if (e.code() == ExitCode::communication && one_terminal && world.first_knows()) throw ToldByFirst(e.code());
    throw;
  } catch (const std::exception& e) {
    world.stop(e.what());
    throw;
  }
}

}  // namespace

std::optional<WorldOptions> world_options(const Invocation& call) {
  const Arguments& a = call.arguments;
  std::string rank = a[rank_flags.rank], ranks = a[rank_flags.world_size], told_by = "--rank and --world-size";
  if (rank.empty() != ranks.empty())
    fail(ExitCode::usage, "--", rank.empty() ? "rank" : "world-size", " is missing: --rank and --world-size go together");
  for (const Launcher& l : launchers) {
    if (!rank.empty()) break;
    rank = variable(call, l.rank);
    ranks = variable(call, l.ranks);
    told_by = concat(l.name, "'s ", l.rank, " and ", l.ranks);
    if (rank.empty() || ranks.empty()) rank.clear();
  }
  if (rank.empty()) return std::nullopt;
  WorldOptions o{.rank = whole(rank, told_by), .ranks = whole(ranks, told_by), .address = a[rank_flags.address]};
  if (o.ranks <= 1) return std::nullopt;
  if (o.rank >= o.ranks) fail(ExitCode::usage, told_by, ": rank ", o.rank, " of ", o.ranks, " ranks, which count from 0");
  if (o.address.empty()) o.address = launchers_address(call);
  if (o.address.empty() && !may_use_mpi(call))
    fail(ExitCode::usage, "rank ", o.rank, " of ", o.ranks, " (by ", told_by,
         ") has no address: give --address HOST:PORT, where rank 0 listens");
  o.timeout_seconds = a[rank_flags.rank_timeout];
  const Collectives collectives = a[rank_flags.collectives];
  o.sums = collectives == Collectives::chain ? Route::chain : collectives == Collectives::pairs ? Route::pairs : Route::measured;
  o.secret = secret_of(call);
  return o;
}

int on_ranks(const Invocation& asked, int (*job)(const Invocation&, World*), const RankStart& start) {
  std::optional<WorldOptions> world = world_options(asked);
  std::int64_t processes = world ? world->ranks : asked.arguments[rank_flags.processes].value_or(1);
  const Arguments a = with_devices(asked, processes, world ? world->rank == 0 : processes == 1);
  const Invocation call{a, asked.streams, asked.environment};
  if (world) {
    struct Entered {
      Mpi* const mpi;
      bool together = false;
      ~Entered() {
        if (mpi) mpi->leave(together);
      }
    } entered{enter_mpi(call, *world)};
    const int code = run_as_rank(call, *world, job);
    entered.together = true;
    return code;
  }
  const auto own = [&] { return own_devices(parse_devices(a[device_flags.devices]), nullptr); };  // all are this machine's
  if (start.one_for_each_gpu && !asked.arguments[rank_flags.processes] && !a[placement_flags.offload].any()) {
    processes = usual_processes(own());
    if (processes > 1)
      call.say(concat("note: ", processes, " processes, one for each GPU, whose steps are captured whole (", rank_flags.processes.flag(),
                      " 1 overrules it)"));
  }
  if (processes == 1) return job(call, nullptr);
  const std::vector<DeviceSpec> devices = own();
  if (processes == 0 || std::ssize(devices) % processes != 0)
    fail(ExitCode::usage, "--processes ", processes, " for ", devices.size(), devices.size() == 1 ? " device" : " devices", " (", to_string(devices),
         "): expected as many devices for each process");
  BackendSet::load(devices).check(devices, true);
  return run_processes(static_cast<int>(processes), start.restarts);
}

bool is_first(const World* world) { return !world || world->rank() == 0; }

World::Fact template_fact(const Model& model, const Invocation& call) {
  return {"template", model.file().fingerprint(), call.arguments[model_file]};
}
World::Fact data_fact(const std::string& name, const Dataset* data) {
  return {name, data ? fingerprint(*data) : "", data ? concat(data->name(), ": ", data->size(), " samples") : ""};
}

Model load_model(const std::filesystem::path& path, World* world, const WeightOptions& weights) {
  const World::Busy busy(world);
  return Model::load(path, weights);
}

void agree_on(World* world, std::vector<World::Fact> facts, const std::vector<DeviceSpec>& devices, const BackendSet& backends) {
  if (!world) return;
  for (const DeviceSpec& d : devices)
    facts.push_back({concat("backend ", d.id.backend), find_backend(backends.all(), d.id.backend).version()});
  world->agree(facts);
}

}  // namespace tandem
