#include "trainer/records/rank_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <random>
#include <utility>

#include "base/atomic_file.h"
#include "runtime/owned_parts.h"
#include "trainer/share.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr char failed = '!';  // begins what a rank says that has failed

// A file that says that a folder is this one. A killed process's goes with the other half-written ones, as its name is one of theirs.
class Token {
 public:
  explicit Token(const fs::path& folder) {  // empty: none
    if (folder.empty()) return;
    std::random_device draw;
    name_ = concat(".shared.tandem-", ::getpid(), '-', draw(), draw());
    path_ = folder / name_;
    const FileDescriptor made(uninterrupted([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
    if (made.get() < 0) name_.clear();
  }
  ~Token() {
    std::error_code ignored;
    if (!name_.empty()) fs::remove(path_, ignored);
  }
  const std::string& name() const { return name_; }  // empty: it could not be made

 private:
  std::string name_;
  fs::path path_;
};

bool can_write_to(const fs::path& folder, int rank) {
  try {
    const AtomicFile probe(folder / concat("rank-", rank));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<PlacedValue> placed(const std::vector<OwnedPart>& owned) {
  std::vector<PlacedValue> values;
  for (const OwnedPart& o : owned)
    values.push_back({.folder = o.parameter->role == ValueRole::plain ? "weights" : "optimizer",
                      .name = o.parameter->name,
                      .type = o.parameter->type,
                      .runs = runs_of(o.parameter->type.shape, o.part.ranges),
                      .part = static_cast<std::size_t>(o.rank)});
  return values;
}

}  // namespace

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const std::exception& e) {  // of whatever kind: a thread has nobody to pass it to
    return e.what();
  }
}

std::string tried_twice(const std::function<void()>& work) {
  const std::string failure = failure_of(work);
  return failure.empty() ? "" : failure_of(work);
}

fs::path shared_folder(World& world, const fs::path& own, std::string& why) {
  const bool first = world.rank() == 0;
  std::error_code error;
  const Token token(first ? own : fs::path());
  const fs::path told = world.broadcast(token.name().empty() ? "" : fs::absolute(own, error).string());
  const fs::path name = world.broadcast(token.name());
  fs::path seen;
  for (const fs::path& folder : {told, own})
    if (seen.empty() && !told.empty() && !folder.empty() && fs::exists(folder / name, error) && can_write_to(folder, world.rank()))
      seen = folder;
  const std::vector<std::string> all = gather_texts(world, seen.string());
  std::string blind;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].empty()) blind += concat(blind.empty() ? "" : ", ", r);
  if (blind.empty()) return seen;
  if (!told.empty())
    why = concat("rank ", blind, " cannot write to the run's folder ", told.string(),
                 ", or sees another of that name: for each checkpoint all values go to rank 0, which writes one file");
  return {};
}

void RankParts::begin(std::int64_t step) {
  const int ranks = world_.ranks(), rank = world_.rank();
  const auto own = static_cast<std::size_t>(rank);
  std::uint32_t drawn = first() ? std::random_device()() : 0;
  const std::string told = world_.broadcast(std::to_string(drawn));
  std::from_chars(told.data(), told.data() + told.size(), drawn);
  std::optional<AtomicFile> file;
  const std::string failure = tried_twice([&] {
    const World::Busy busy(&world_);
    file.reset();
    const std::vector<OwnedPart> owned = owned_parts(session_.plan(), ranks);
    values_ = placed(owned);
    written_.clear();
    PartHeader header;
    for (int r = 0; r < ranks; ++r) {
      PartHeader of_rank = lay_out(values_, static_cast<std::size_t>(r));
      written_.push_back({.name = name_of_part(step, drawn, r, ranks), .bytes = of_rank.file_bytes});
      if (r == rank) header = std::move(of_rank);
    }
    WrittenPart part = write_part(folder_of_parts(folder_ / "index") / written_[own].name, header, values_, own,
                                  [&](std::size_t i) { return session_.part(*owned[i].parameter, owned[i].part); });
    written_[own].crc32c = part.crc32c;
    file.emplace(std::move(part.file));
  });
  writer_ = !failure.empty() ? std::async(std::launch::deferred, [failure] { return failure; })
                             : std::async(std::launch::async, [filled = std::move(*file)]() mutable {
                                 return failure_of([&] { AtomicFile(std::move(filled)).commit(); });
                               });
}

std::string RankParts::finish(const Commit& commit) {
  std::string own_failure;
  {
    const World::Busy busy(&world_);
    own_failure = writer_.get();
  }
  const std::uint32_t sum = written_.empty() ? 0 : written_[static_cast<std::size_t>(world_.rank())].crc32c;
  const std::vector<std::string> said = gather_texts(world_, own_failure.empty() ? std::to_string(sum) : failed + own_failure);
  std::string failure;
  for (std::size_t r = 0; r < said.size() && failure.empty(); ++r) {
    if (said[r].starts_with(failed)) failure = concat("rank ", r, ": ", said[r].substr(1));
    else if (first()) std::from_chars(said[r].data(), said[r].data() + said[r].size(), written_[r].crc32c);
  }
  return by_first([&] {
    if (!failure.empty()) throw std::runtime_error(failure);
    commit(json_of_parts(written_, values_));
  });
}

void RankParts::abandon() {
  if (writer_.valid()) writer_.get();
}

// No rank writes a part while rank 0 removes some: the others wait for its word.
std::string RankParts::by_first(const std::function<void()>& work) const {
  if (!first()) return world_.broadcast("");
  std::string failure;
  {
    const World::Busy busy(&world_);
    failure = tried_twice(work);
    remove_unnamed_parts(folder_);
  }
  return world_.broadcast(failure);
}

Checkpoint RankParts::read(const fs::path& name) const {
  Checkpoint checkpoint;
  const auto ranks = static_cast<std::size_t>(world_.ranks()), rank = static_cast<std::size_t>(world_.rank());
  const std::vector<std::string> sums = gather_results(world_, [&] {
    checkpoint = read_checkpoint(folder_ / name, [&](std::size_t file) { return file % ranks == rank; });
    return checkpoint.checksum;
  });
  for (std::size_t r = 1; r < sums.size(); ++r)
    if (sums[r] != sums[0]) fail(ExitCode::io, (folder_ / name).string(), ": rank ", r, " sees another file of that name than rank 0");
  return checkpoint;
}

}  // namespace tandem
