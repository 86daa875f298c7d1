// Any bytes as a run's config.json: read as --config by each command, and planned by `tandem plan`. The model is a small one
// whatever it says; what is written goes nowhere, and no other process is started or waited for.
#include <sstream>
#include <stdexcept>

#include "cli/command.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_run.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  static const std::string model = fuzz::write("small.onnx", fuzz::small_model_bytes()).string();
  const std::string config = fuzz::write("config.json", fuzz::text_of(data, size)).string();
  const auto nothing = [](const std::string&) -> const char* { return nullptr; };
  std::istringstream in;
  std::ostringstream out;
  Streams streams{in, out, out};
  const std::vector<std::string> calls[] = {
      {"plan", model, "--config", config, "--no-autotune", "--batch-size", "4", "--tuning-cache", ""},
      {"train", "--config", config, "--help"},
      {"train", model, "--config", config, "--dry-run", "--processes", "1", "--rank", "", "--world-size", "", "--no-autotune", "--run-dir", "none",
       "--data", "random,samples=4", "--tuning-cache", "", "--output", (fuzz::folder() / "out.onnx").string()},
  };
  for (const std::vector<std::string>& call : calls)
    if (constexpr int internal = 1; run(call, streams, nothing) == internal) throw std::logic_error(out.str());
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  std::string config = fuzz::text_of(data, size);
  random.one_in(4) ? fuzz::mutate_bytes(config, random) : fuzz::mutate_text(config, random);
  return fuzz::give(config, data, room);
}
