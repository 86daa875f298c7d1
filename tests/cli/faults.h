// A process whose Nth call to the disk fails, or that dies there (tests/faults/failing_calls.cpp).
#pragma once
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem {

// `call`: where the fault happens; 0: nowhere, and the calls below the folder go to `log`.
inline std::map<std::string, std::string> with_fault(const std::filesystem::path& below, const std::string& fault, int call,
                                                     const std::filesystem::path& log) {
#ifdef TANDEM_FAILING_CALLS
  const char* const others = std::getenv("LD_PRELOAD");  // what the whole suite is run with
  return {{"LD_PRELOAD", concat(TANDEM_FAILING_CALLS, others ? ":" : "", others ? others : "")},
          {"TANDEM_FAULT_BELOW", below},
          {"TANDEM_FAULT", fault},
          {"TANDEM_FAULT_CALL", text_of(call)},
          {"TANDEM_FAULT_LOG", call == 0 ? log.string() : ""}};
#else
  static_cast<void>(below), static_cast<void>(fault), static_cast<void>(call), static_cast<void>(log);
  return {};
#endif
}

// Every N of so many calls, or a few of them: as TANDEM_FAULT_TRIES says.
inline std::vector<int> tried_calls(int calls) {
  const char* asked = std::getenv("TANDEM_FAULT_TRIES");
  const int count = asked ? std::string(asked) == "all" ? calls : std::atoi(asked) : 3;
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(1 + static_cast<int>((i + 0.5) * calls / count));
  return list;
}

}  // namespace tandem
