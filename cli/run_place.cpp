#include "cli/run_place.h"

#include <algorithm>
#include <charconv>

#include "base/atomic_file.h"
#include "cli/ranks.h"
#include "options/train_flags.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* runs = "runs";

// One more than the largest N of the folders PREFIX-N: numbers tell the order in which runs were begun.
std::int64_t next_number(const fs::path& folder, const std::string& prefix) {
  std::int64_t next = 1;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::int64_t number = 0;
    if (name.size() <= prefix.size() + 1 || !name.starts_with(prefix) || name[prefix.size()] != '-') continue;
    const char *first = name.data() + prefix.size() + 1, *last = name.data() + name.size();
    if (std::from_chars(first, last, number).ptr == last && number < 1'000'000'000) next = std::max(next, number + 1);
  }
  return next;
}

fs::path make_folder(const std::string& name, std::error_code& error) {
  fs::create_directories(runs, error);
  for (std::int64_t n = next_number(runs, name); !error; ++n)  // another run may take the same number at the same time
    if (const fs::path folder = fs::path(runs) / concat(name, '-', n); fs::create_directory(folder, error)) return folder;
  return {};
}

}  // namespace

RunPlace::RunPlace(const Invocation& call, const World* world, bool dry) : arguments_(call.arguments) {
  const std::string asked = arguments_[record_flags.run_dir];
  if (asked == "none") arguments_.set(record_flags.run_dir, "");
  if (!asked.empty() || dry || arguments_[record_flags.resume]) return;
  constexpr std::string_view most = "-999999999";  // room for a number
  std::string name = name_beside(fs::path(arguments_[model_file]).stem().string(), most);
  name.resize(name.size() - most.size());
  if (!is_first(world)) {  // that there is one is all it needs to know
    arguments_.choose(record_flags.run_dir, concat(runs, '/', name));
    return;
  }
  std::error_code error;
  made_ = make_folder(name, error);
  if (made_.empty()) {
    call.say(concat("note: no run folder: ", runs, ": ", error.message(), " (--run-dir DIR makes one elsewhere)"));
    return;
  }
  arguments_.choose(record_flags.run_dir, made_.string());
}

void RunPlace::say(const Invocation& call) const {
  if (!made_.empty()) call.say(concat("run folder: ", made_.string(), " (--run-dir DIR for another, none for none)"));
}

bool holds_checkpoint(const fs::path& run) {
  std::error_code error;
  return fs::exists(run / "last.checkpoint", error) || fs::exists(run / "previous.checkpoint", error);
}

bool RunPlace::begin_anew_without_checkpoint(World* world) {
  const bool none = is_first(world) && arguments_[record_flags.resume] && !holds_checkpoint(arguments_[record_flags.run_dir]);
  const bool anew = world ? world->any(none) : none;
  if (anew) arguments_.set(record_flags.resume, "off");
  return anew;
}

RunPlace::~RunPlace() {
  std::error_code error;
  if (made_.empty() || fs::exists(made_ / "config.json", error)) return;
  fs::remove_all(made_, error);
  fs::remove(runs, error);  // where it is empty
}

}  // namespace tandem
