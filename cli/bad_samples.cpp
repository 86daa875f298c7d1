#include "cli/bad_samples.h"

#include <algorithm>

#include "options/image_options.h"

namespace tandem {

void tell_bad_samples(const Invocation& call, const Preprocess& p, std::string_view one, std::string_view several) {
  constexpr std::size_t most = 5;
  const std::vector<std::string> bad = bad_samples_of(p);
  for (std::size_t i = 0; i < std::min(most, bad.size()); ++i) call.say("note: left out: " + bad[i]);
  if (bad.empty()) return;
  call.say(concat("note: ", bad.size(), bad.size() == 1 ? " sample" : " samples", " that cannot be decoded ",
                  bad.size() == 1 ? one : several, " (--on-bad-sample)"));
}

}  // namespace tandem
