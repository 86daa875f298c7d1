// What the planner's passes do to nodes of a model, noted while they run.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/options.h"

namespace tandem {

// What the planner's passes made of the model's nodes that a pattern names.
class PassNotes {
 public:
  explicit PassNotes(std::string pattern) : pattern_(std::move(pattern)) {}
  // Notes what passes of `options` do; must outlive the planning.
  void listen(CompileOptions& options);

  struct Became {
    std::string pass, why;
    std::set<std::string> operators;  // that come from the node behind that pass: "Conv (with bn1, relu1)"; none: it is gone
  };
  struct Missed {
    std::set<std::string> nodes;  // of the model, from which the two come
    std::string pair, why, pass;  // "Conv (conv1) and Relu (relu1)"
    auto operator<=>(const Missed&) const = default;
  };
  const std::set<Missed>& missed() const { return missed_; }  // fusions that passes thought of and left
  const std::map<std::string, std::vector<Became>>& nodes() const { return nodes_; }  // by name: what changed, in order
  const std::set<std::string>& names() const { return names_; }                       // of all nodes of the model

 private:
  void note(const PassResult& result);
  void note(const NotFused& pair);
  std::string pattern_;
  std::set<std::string> names_;
  std::map<std::string, std::vector<Became>> nodes_;
  std::set<Missed> missed_;
  std::vector<Missed> of_this_pass_;
};

}  // namespace tandem
