// The columns of a table, in order, and where each stands.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "data/limits.h"

namespace tandem {

class ColumnNames {
 public:
  // False: there was one of that name, which stays the one that is found. Fails (data), beginning with `where`, on more columns, or longer
  // names, than are read.
  bool add(std::string name, std::string_view where) {
    if (names_.size() == data_limits::columns) fail(ExitCode::data, where, ": more than ", data_limits::columns, " columns");
    if ((bytes_ += name.size()) > data_limits::column_names)
      fail(ExitCode::data, where, ": its columns' names take more than ", data_limits::column_names, " bytes");
    const bool added = places_.try_emplace(name, names_.size()).second;
    names_.push_back(std::move(name));
    return added;
  }
  const std::vector<std::string>& list() const { return names_; }
  std::size_t size() const { return names_.size(); }
  // size() where there is none.
  std::size_t find(const std::string& name) const {
    const auto at = places_.find(name);
    return at == places_.end() ? names_.size() : at->second;
  }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> places_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem
