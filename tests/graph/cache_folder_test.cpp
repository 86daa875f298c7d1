// Where what took long to make is kept.
#include "base/cache_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace tandem {
namespace {

// Of the process's environment, given back at the end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(CacheFolder, IsAsTheEnvironmentSays) {
  const struct {
    const char *own, *cache, *home, *expected;
  } rows[] = {
      {"/own", "/cache", "/home", "/own"},
      {"", "/cache", "/home", ""},  // nothing is kept
      {nullptr, "/cache", "/home", "/cache/tandem"},
      {nullptr, "", "/home", "/home/.cache/tandem"},
      {nullptr, nullptr, "/home", "/home/.cache/tandem"},
      {nullptr, nullptr, nullptr, ""},
  };
  for (const auto& row : rows) {
    const Variable own("TANDEM_CACHE", row.own), cache("XDG_CACHE_HOME", row.cache), home("HOME", row.home);
    EXPECT_EQ(cache_folder().string(), row.expected);
  }
}

}  // namespace
}  // namespace tandem
