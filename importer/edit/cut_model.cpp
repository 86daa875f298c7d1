#include "importer/edit/cut_model.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/option.h"
#include "base/suggest.h"
#include "importer/edit/message_values.h"
#include "importer/edit/write_out_call.h"
#include "importer/message/limits.h"

namespace tandem {
namespace {

template <class List, class Keep>
int keep_if(List& list, Keep&& keep) {
  int kept = 0;
  for (int i = 0; i < list.size(); ++i)
    if (keep(list[i])) list.SwapElements(kept++, i);
  const int gone = list.size() - kept;
  list.DeleteSubrange(kept, gone);
  return gone;
}

// What a node reads, in its bodies too: there a name may be the body's own, and then counts for nothing.
void add_reads(const onnx::NodeProto& node, std::set<std::string>& names, std::vector<std::string>& open) {
  const auto add = [&](const std::string& name) {
    if (!name.empty() && names.insert(name).second) open.push_back(name);
  };
  for (const auto& in : node.input()) add(in);
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const auto& inner : attribute.g().node()) add_reads(inner, names, open);
    for (const auto& out : attribute.g().output()) add(out.name());
  }
}

class Cut {
 public:
  explicit Cut(onnx::ModelProto& model) : model_(model), graph_(*model.mutable_graph()), values_(model) {}

  std::string run(const std::vector<std::string>& wanted) {
    std::vector<std::string> ends;
    for (const std::string& name : wanted) ends.push_back(value_of(name));
    std::vector<onnx::ValueInfoProto> outputs;
    std::string list;
    for (const std::string& end : ends) {
      outputs.push_back(declared(end));
      list += concat(list.empty() ? "'" : ", '", end, "'");
    }
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (std::find(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(i), ends[i]) != ends.begin() + static_cast<std::ptrdiff_t>(i))
        fail(ExitCode::usage, option("cut"), ": '", ends[i], "' is named twice");
    std::set<std::string> needed(ends.begin(), ends.end());
    std::vector<std::string> open = ends;
    while (!open.empty()) {
      const int maker = values_.maker(open.back());
      open.pop_back();
      if (maker >= 0) add_reads(graph_.node(maker), needed, open);
    }
    const int nodes = keep_if(*graph_.mutable_node(), [&](const auto& n) {
      return std::any_of(n.output().begin(), n.output().end(), [&](const auto& o) { return needed.contains(o); });
    });
    const int tensors = keep_if(*graph_.mutable_initializer(), [&](const auto& t) { return needed.contains(t.name()); });
    keep_if(*graph_.mutable_sparse_initializer(), [&](const auto& t) { return needed.contains(t.values().name()); });
    keep_if(*graph_.mutable_value_info(),
            [&](const auto& v) { return needed.contains(v.name()) && std::find(ends.begin(), ends.end(), v.name()) == ends.end(); });
    keep_if(*graph_.mutable_input(), [&](const auto& v) { return needed.contains(v.name()); });
    graph_.clear_output();
    for (auto& o : outputs) *graph_.add_output() = std::move(o);
    return concat("cut: the model ends at ", list, "; ", nodes, nodes == 1 ? " node" : " nodes", " and ", tensors,
                  tensors == 1 ? " initializer" : " initializers", " behind that are left out");
  }

 private:
  std::string value_of(const std::string& name) {
    for (int calls = 0; calls < limits::function_depth; ++calls) {
      if (values_.maker(name) >= 0) return name;
      int inside = -1;
      for (int i = 0; i < graph_.node_size(); ++i) {
        const onnx::NodeProto& node = graph_.node(i);
        if (!node.name().empty() && node.name() == name && node.output_size() > 0) return node.output(0);
        if (!node.name().empty() && name.starts_with(node.name() + "/") && called_by(node, model_)) inside = i;
      }
      if (inside < 0) break;
      write_out_call(model_, inside);
      values_.index();
    }
    std::vector<std::string> names;
    for (const auto& node : graph_.node()) {
      names.insert(names.end(), node.output().begin(), node.output().end());
      if (!node.name().empty()) names.push_back(node.name());
    }
    fail(ExitCode::usage, option("cut"), " '", name, "': the model's graph has no node and computes no value of that name",
         suggestion(name, names));
  }

  onnx::ValueInfoProto declared(const std::string& name) const {
    for (const auto* list : {&graph_.output(), &graph_.value_info()})
      for (const auto& v : *list)
        if (v.name() == name) return v;
    onnx::ValueInfoProto v;
    v.set_name(name);
    return v;
  }

  onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  MessageValues values_;
};

}  // namespace

std::string cut_model(onnx::ModelProto& model, const std::vector<std::string>& values) { return Cut(model).run(values); }

}  // namespace tandem
