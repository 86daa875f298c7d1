// Puts the chain and the lines of control together to what the other folders see of several processes.
#include "ranks/world.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/printable.h"
#include "ranks/chain.h"
#include "ranks/link.h"
#include "ranks/mpi.h"

namespace tandem {
namespace {

// What the ranks call, told along the chain so that a call that differs is found out.
enum class Kind : std::uint64_t { sum, gather, broadcast_size, broadcast, any, agree, leave, largest, doors };

constexpr std::uint64_t most_at_once = 16 << 20;  // bytes of a broadcast

WorldOptions checked(const WorldOptions& o) {
  if (o.ranks < 1 || o.rank < 0 || o.rank >= o.ranks) fail(ExitCode::usage, "rank ", o.rank, " of ", o.ranks, " ranks");
  if (o.timeout_seconds <= 0) fail(ExitCode::usage, "a timeout of ", o.timeout_seconds, " s for ranks: expected more than 0");
  return o;
}

// memory = partial + buffers[0] + buffers[1] + ..., memory being buffers[0]; or the largest of them.
template <class T, bool largest>
void sum_up(std::span<std::byte* const> buffers, std::int64_t at, std::int64_t bytes, const std::byte* partial) {
  const auto fold = [](T a, T b) { return largest ? std::max(a, b) : a + b; };
  const std::int64_t n = bytes / static_cast<std::int64_t>(sizeof(T));
  T* const sums = reinterpret_cast<T*>(buffers[0] + at);
  if (partial) {
    const T* const below = reinterpret_cast<const T*>(partial);
    for (std::int64_t i = 0; i < n; ++i) sums[i] = fold(below[i], sums[i]);
  }
  for (std::size_t b = 1; b < buffers.size(); ++b) {
    const T* const x = reinterpret_cast<const T*>(buffers[b] + at);
    for (std::int64_t i = 0; i < n; ++i) sums[i] = fold(sums[i], x[i]);
  }
}

void merge(void* context, std::int64_t at, std::int64_t bytes, const std::byte* partial) {
  std::byte* const own = static_cast<std::byte*>(context) + at;
  if (!partial) return;
  for (std::int64_t i = 0; i < bytes; ++i) own[i] |= partial[i];
}

}  // namespace

struct World::State {
  WorldOptions options;
  Greeting greeting;
  const Whereabouts where;
  Control control;
  Chain chain;
  std::map<LineName, std::unique_ptr<Link>> lines;  // this rank's
  std::set<LineName> asked;                         // of all ranks

  explicit State(const WorldOptions& o)
      : options(checked(o)),
        greeting(o.ranks > 1 ? greet(options, share_address(options)) : Greeting{}),
        where(greeting.where),
        control(o.rank, std::move(greeting.control), o.timeout_seconds),
        chain(o.rank, o.ranks > 1 ? join_neighbours(options, std::move(greeting), control) : Neighbours{}, o.timeout_seconds, control) {}

  // By line; null where neither device is this rank's. Lines of MPI have the number that they are asked for by all ranks.
  std::vector<std::unique_ptr<Pipe>> pipes(std::span<const DeviceLine> wanted) {
    std::vector<std::unique_ptr<Pipe>> pipes(wanted.size());
    if (options.mpi) {
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (const auto [low, high] = std::pair(wanted[i].low_rank, wanted[i].high_rank); low == options.rank || high == options.rank)
          pipes[i] = options.mpi->open(low == options.rank ? high : low, static_cast<int>(asked.size() + i));
      return pipes;
    }
    std::vector<Socket> sockets =
        tandem::open_lines(options, where, wanted, control, [&](std::span<std::byte> bytes) { gather(Kind::doors, bytes); });
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (sockets[i].open()) pipes[i] = std::make_unique<SocketPipe>(std::move(sockets[i]));
    return pipes;
  }

  void gather(Kind kind, std::span<std::byte> bytes) {
    if (options.ranks > 1) chain.run({static_cast<std::uint64_t>(kind), 0, bytes.size()}, 1, bytes.data(), {bytes.data(), merge});
  }
};

World::World(const WorldOptions& options) : state_(std::make_unique<State>(options)) {}
World::~World() = default;

int World::rank() const { return state_->options.rank; }
int World::ranks() const { return state_->options.ranks; }
double World::timeout_seconds() const { return state_->options.timeout_seconds; }
Route World::sums() const {
  return state_->options.mpi ? Route::pairs : state_->options.sums;
}

void World::all_reduce(std::span<std::byte* const> buffers, std::int64_t elements, DType dtype, int channel, bool largest) {
  const std::size_t size = size_of(dtype);
  const auto bytes = static_cast<std::uint64_t>(elements) * size;
  visit_float(dtype, [&]<class T>() {
    const auto folding = []<bool of_largest>() {
      return [](void* context, std::int64_t at, std::int64_t n, const std::byte* partial) {
        sum_up<T, of_largest>(*static_cast<std::span<std::byte* const>*>(context), at, n, partial);
      };
    };
    const Chain::Fold fold{&buffers, largest ? +folding.template operator()<true>() : +folding.template operator()<false>()};
    state_->chain.run({static_cast<std::uint64_t>(largest ? Kind::largest : Kind::sum), static_cast<std::uint64_t>(channel), bytes}, size,
                      buffers[0], fold);
  });
}

void World::gather(std::span<std::byte> bytes) { state_->gather(Kind::gather, bytes); }

std::string World::broadcast(const std::string& bytes) {
  const bool mine = rank() == 0;
  std::uint64_t size = mine ? bytes.size() : 0;
  state_->gather(Kind::broadcast_size, std::as_writable_bytes(std::span(&size, 1)));
  std::string all = mine ? bytes : "";
  for (std::uint64_t at = 0; at < size;) {  // no more memory than has come: who announces much must send it
    const std::uint64_t n = std::min<std::uint64_t>(size - at, most_at_once);
    if (!mine) all.resize(at + n);
    state_->gather(Kind::broadcast, std::as_writable_bytes(std::span(all)).subspan(at, n));
    at += n;
  }
  return all;
}

bool World::any(bool mine) {
  std::byte flag{mine};
  state_->gather(Kind::any, {&flag, 1});
  return flag != std::byte{};
}

void World::agree(std::span<const Fact> facts) {
  constexpr char end = '\0';  // of each name and value
  std::string text;
  for (const Fact& f : facts) text += concat(f.name, end, f.value, end, f.where, end);
  std::istringstream first(broadcast(text));
  std::map<std::string, std::pair<Fact, Fact>> values;  // by name: rank 0's and this rank's
  for (Fact f; std::getline(first, f.name, end) && std::getline(first, f.value, end) && std::getline(first, f.where, end);)
    values[f.name].first = f;
  for (const Fact& f : facts) values[f.name].second = f;

  // Each rank says in its own place what differs, and all read the same one.
  constexpr std::size_t room = 512;
  std::string places(room * static_cast<std::size_t>(ranks()), end);
  const auto shown = [](const Fact& f) {
    return printable(concat(f.value.empty() ? "none" : f.value, f.where.empty() ? "" : concat(" (", f.where, ')')));
  };
  for (const auto& [name, value] : values) {
    if (value.first.value == value.second.value) continue;
    const std::string difference =
        concat("rank ", rank(), " has ", printable(name), ' ', shown(value.second), ", rank 0 has ", shown(value.first));
    places.replace(room * static_cast<std::size_t>(rank()), std::min(difference.size(), room - 1), difference, 0, room - 1);
    break;
  }
  state_->gather(Kind::agree, std::as_writable_bytes(std::span(places)));
  for (std::size_t r = 0; r < places.size(); r += room)
    if (places[r] != end) state_->control.end(printable(places.c_str() + r));  // others may not have read as far
}

void World::open_lines(std::vector<DeviceLine> lines) {
  State& s = *state_;
  const auto is_open = [&](const DeviceLine& l) { return s.asked.contains(name_of(l)); };
  std::erase_if(lines, is_open);
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  if (lines.empty()) return;
  std::vector<std::unique_ptr<Pipe>> pipes = s.pipes(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const DeviceLine& l = lines[i];
    const LineName name = name_of(l);
    s.asked.insert(name);
    if (!pipes[i]) continue;
    const bool low = l.low_rank == rank();
    const int own = (low ? l.low : l.high).device, other = (low ? l.high : l.low).device, there = low ? l.high_rank : l.low_rank;
    s.lines[name] = std::make_unique<Link>(std::move(pipes[i]), there, s.control, s.control.add_waiting(own, other, there));
  }
}

Links World::links(const LineEnd& own, std::span<const LineEnd> others) {
  std::vector<Link*> links;
  for (const LineEnd& other : others) {
    const auto line = state_->lines.find(name_of(DeviceLine{.low = std::min(own, other), .high = std::max(own, other)}));
    if (line == state_->lines.end())
      fail(ExitCode::communication, "rank ", rank(), ": no line from device ", own.device, " to device ", other.device, " is open");
    links.push_back(line->second.get());
  }
  return {std::move(links), state_->control, timeout_seconds(), state_->options.mpi};
}

void World::leave() {
  state_->control.be_leaving();
  std::byte none{};
  state_->gather(Kind::leave, {&none, 1});
}

World::Busy::Busy(World* world) : world_(world) {
  if (world_) world_->state_->control.be_busy(true);
}
World::Busy::~Busy() {
  if (world_) world_->state_->control.be_busy(false);
}

void World::count_call() { state_->control.enter_call(); }
void World::stalled() { state_->control.stalled(); }
std::uint64_t World::messages() const { return state_->control.messages(); }
bool World::stopped() const { return state_->control.stopped(); }
bool World::first_knows() const { return state_->control.first_knows(); }
void World::stop(const std::string& reason) { state_->control.stop(reason); }
void World::on_word(std::function<void(const std::string&)> call) {
  state_->control.on_word(std::move(call));
}
void World::on_stop(std::function<void(const std::string&)> call) { state_->control.on_stop(std::move(call)); }

DeviceRange devices_of(const World* world, int devices) {
  if (!world) return {0, devices};
  if (devices % world->ranks() != 0)
    fail(ExitCode::usage, devices, devices == 1 ? " device" : " devices", " for ", world->ranks(), " ranks: expected as many for each");
  const int each = devices / world->ranks();
  return {world->rank() * each, each};
}

}  // namespace tandem
