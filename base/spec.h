// Small texts that users write on a command line: "synthetic:digits,train=20000", "step,every=10,factor=0.1".
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace tandem {

// Whole-text finite numbers; fail (usage) naming `what`.
double parse_number(std::string_view text, std::string_view what);
std::int64_t parse_integer(std::string_view text, std::string_view what);
std::vector<std::string> split(std::string_view text, char separator);  // "" gives none

// NAME[:ARGUMENT][,KEY=VALUE...]. A comma that no KEY= follows belongs to what stands before it, so that paths may hold one.
struct Spec {
  std::string name;
  std::string argument;
  std::map<std::string, std::string> options;

  double number(std::string_view key, double absent) const;
  std::int64_t integer(std::string_view key, std::int64_t absent) const;
  std::string text(std::string_view key, std::string_view absent) const;
  // Fails (usage) on any other key, naming the nearest.
  void allow(std::initializer_list<std::string_view> keys, std::string_view what) const;
};
// With `lists` values may be lists, too: "csv:FILE,x=a,b,c,y=d"; keys, which may be names of a model's inputs, then hold . and : as well.
Spec parse_spec(std::string_view text, bool lists = false);

}  // namespace tandem
