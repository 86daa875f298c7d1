#include "options/image_options.h"

#include <memory>
#include <mutex>
#include <set>

#include "base/spec.h"
#include "options/data_flags.h"

namespace tandem {
namespace {

constexpr std::int64_t most_bad = 100;

// What Preprocess::on_bad_sample is: every sample once, though an epoch and an evaluation meet it again. Called by threads.
struct BadSamples {
  struct Found {
    std::mutex mutex;
    std::set<std::string> why;
  };
  std::shared_ptr<Found> found = std::make_shared<Found>();
  void operator()(const std::string& why) const {
    const std::lock_guard lock(found->mutex);
    found->why.insert(why);
  }
};

void read_bad_samples(const std::string& text, Preprocess& p) {
  if (text == "fail") return;
  const std::size_t equals = text.find('=');
  if (text.substr(0, equals) != "skip")
    fail(ExitCode::usage, data_flags.on_bad_sample.told(), " '", text, "': expected fail, skip or skip=N");
  p.bad_samples =
      equals == std::string::npos ? most_bad : parse_integer(text.substr(equals + 1), concat(data_flags.on_bad_sample.told(), ": skip"));
  if (p.bad_samples < 1) fail(ExitCode::usage, data_flags.on_bad_sample.told(), ' ', text, ": expected at least 1");
  p.on_bad_sample = BadSamples{};
}

}  // namespace

void read_image_options(const OptionValues& a, Preprocess& p) {
  p.workers = a[data_flags.workers];
  read_bad_samples(a[data_flags.on_bad_sample], p);
  if (const std::string asked = a[data_flags.resize]; !asked.empty()) p.resizing = parse_resizing(asked);
  if (const std::string asked = a[data_flags.normalize]; !asked.empty()) parse_normalize(p, asked);
}

std::vector<std::string> bad_samples_of(const Preprocess& p) {
  const BadSamples* bad = p.on_bad_sample.target<BadSamples>();
  return bad ? std::vector<std::string>(bad->found->why.begin(), bad->found->why.end()) : std::vector<std::string>();
}

}  // namespace tandem
