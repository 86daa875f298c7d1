// Ranks as processes of the program.
#pragma once
#include "cli/ranks.h"

#include <functional>
#include <sstream>

#include "tests/cli/process.h"
#include "tests/ranks/address.h"

namespace tandem::rank_tests {

inline const std::string digits = "--data synthetic:digits,train=150,test=40 --no-autotune --init he-normal ";
inline const std::string forever =
    "train MODELS/mlp.onnx --data synthetic:digits,train=200,test=50 --no-autotune --init he-normal --batch-size 64 "
    "--epochs 1000000 --output TMP/out.onnx ";

// Kernels of a large model are timed for long: no times are kept here.
inline const std::string slow_to_plan =
    "train MODELS/resnet50.onnx --data random,samples=32 --batch-size 16 --tuning-cache TMP/kernels.cache --output TMP/out.onnx ";

inline Process start_rank(const TemporaryFolder& folder, const test::RankAddress& address, int rank, int ranks, const std::string& line) {
  return {folder, concat("rank", rank), words(line, folder.text()),
          std::map<std::string, std::string>{
              {"TANDEM_RANK", text_of(rank)}, {"TANDEM_WORLD_SIZE", text_of(ranks)}, {"TANDEM_ADDRESS", address.text()}}};
}

inline std::vector<Process> start_ranks(const TemporaryFolder& folder, const test::RankAddress& address, int ranks, const std::string& line,
                                        const std::function<std::string(int)>& own = [](int) { return ""; }) {
  std::vector<Process> list;
  for (int r = 0; r < ranks; ++r) list.push_back(start_rank(folder, address, r, ranks, line + own(r)));
  return list;
}

inline std::vector<Outcome> wait_all(std::vector<Process>& processes) {
  std::vector<Outcome> outcomes;
  for (Process& p : processes) outcomes.push_back(p.wait());
  return outcomes;
}

// What a run's lines say, without its times.
inline std::string results(const std::string& lines) {
  std::istringstream stream(lines);
  std::string text;
  for (std::string line; std::getline(stream, line);) {
    const Json event = Json::parse(line);
    for (const auto& [key, value] : event.object())
      if (key != "hash" && key != "output" && key.find("second") == std::string::npos && key.find("bytes") == std::string::npos &&
          key != "devices" && key != "waiting_share")
        text += concat(key, ' ', value.dump(), ", ");
    text += '\n';
  }
  return text;
}

}  // namespace tandem::rank_tests
