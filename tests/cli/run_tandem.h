// The program run in this process.
#pragma once
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem {

struct Outcome {
  int code = 0;
  std::string out, err;
};

// Training keeps its run in runs/ by itself; a test that says nothing of it wants none.
inline std::vector<std::string> without_run_folder(std::vector<std::string> arguments) {
  const auto decides = [](const std::string& a) {
    return a.starts_with("--run-dir") || a.starts_with("--config") || a == "--help" || a == "-h";
  };
  if (!arguments.empty() && arguments[0] == "train" && std::none_of(arguments.begin(), arguments.end(), decides))
    arguments.insert(arguments.begin() + 1, "--run-dir=none");
  return arguments;
}

inline Outcome run_tandem(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {},
                          bool terminal = false) {
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err, terminal};
  Outcome outcome;
  outcome.code = run(without_run_folder(arguments), streams, [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

// A command line as words; MODELS stands for the bundled templates' folder and TMP for `folder`.
inline std::vector<std::string> words(std::string line, const std::string& folder = "") {
  for (const auto& [name, path] :
       {std::pair<std::string, std::string>{"MODELS", std::string(TANDEM_SOURCE_DIR) + "/models"}, {"TMP", folder}})
    for (std::size_t at = line.find(name); at != std::string::npos; at = line.find(name, at + path.size()))
      line.replace(at, name.size(), path);
  std::istringstream stream(line);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

}  // namespace tandem
