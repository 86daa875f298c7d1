#include "cli/image_options.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>

#include "base/spec.h"
#include "cli/data_flags.h"
#include "trainer/feed/preprocess.h"

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
  if (text.substr(0, equals) != "skip") fail(ExitCode::usage, "--on-bad-sample '", text, "': expected fail, skip or skip=N");
  p.bad_samples = equals == std::string::npos ? most_bad : parse_integer(text.substr(equals + 1), "--on-bad-sample: skip");
  if (p.bad_samples < 1) fail(ExitCode::usage, "--on-bad-sample ", text, ": expected at least 1");
  p.on_bad_sample = BadSamples{};
}

bool has_image_files(const Dataset& data) {
  return std::ranges::any_of(data.fields(), &Field::encoded);
}

}  // namespace

void read_image_options(const Invocation& call, const Model& model, Preprocess& p) {
  const Arguments& a = call.arguments;
  p.workers = a[data_flags.workers];
  read_bad_samples(a[data_flags.on_bad_sample], p);
  const auto entry = model.file().metadata().find("tandem.resize");
  if (const std::string asked = a[data_flags.resize]; !asked.empty()) {
    p.resizing = parse_resizing(asked);
  } else if (entry != model.file().metadata().end()) {
    try {
      p.resizing = parse_resizing(entry->second);
    } catch (const Error& e) {
      fail(ExitCode::model, "the model's metadata tandem.resize: ", e.what());
    }
    call.say(concat("note: resize is ", entry->second, ", as the model was trained (--resize overrules it)"));
  }
}

void settle_preparation(const Invocation& call, const Dataset& data, const DataRequest& request, Preprocess& p) {
  if (p.measure) {
    const std::int64_t samples = measure_normalize(p, data, request);
    call.say(concat("note: normalize is ", text_of_normalize(p), ", as measured on ", samples, " samples of ", data.name()));
  }
  if (!has_image_files(data)) return;
  const bool trains_on_boxes = request.training && p.random_box;
  const std::string how = p.resizing.stretch         ? "stretched to the model's size"
                          : p.resizing.shorter > 0   ? concat("resized to ", p.resizing.shorter, " pixels of the shorter side and cropped in the middle")
                                                     : "resized to cover the model's size and cropped in the middle";
  call.say(concat("note: images are ", how, trains_on_boxes ? ", in training random boxes of 8 to 100% (--augment crop)" : "", " (--resize overrules it)",
                  p.mean.empty() ? "; their values are 0 to 1 (--normalize; weights of ImageNet want --normalize imagenet)" : ""));
}

void tell_bad_samples(const Invocation& call, const Preprocess& p, std::string_view one, std::string_view several) {
  constexpr std::size_t most = 5;
  const BadSamples* bad = p.on_bad_sample.target<BadSamples>();
  if (!bad || bad->found->why.empty()) return;
  std::size_t told = 0;
  for (const std::string& why : bad->found->why)
    if (told++ < most) call.say("note: left out: " + why);
  call.say(concat("note: ", told, told == 1 ? " sample" : " samples", " that cannot be decoded ", told == 1 ? one : several, " (--on-bad-sample)"));
}

}  // namespace tandem
