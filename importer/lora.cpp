#include "importer/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "graph/error.h"
#include "graph/pattern.h"

namespace tandem {
namespace {

struct Uses {
  bool straight = false, turned = false, other = false;  // as a product's second operand, as its transpose, otherwise
  std::vector<std::string> readers;                      // names of the products, and of the modules that they are of
};

void use_names(const onnx::GraphProto& graph, bool top, std::map<std::string, Uses>& uses) {
  for (const auto& output : graph.output()) uses[output.name()].other = true;
  for (const auto& node : graph.node()) {
    const bool gemm = node.op_type() == "Gemm", product = top && node.domain().empty() && (gemm || node.op_type() == "MatMul");
    for (int i = 0; i < node.input_size(); ++i) {
      Uses& u = uses[node.input(i)];
      if (!product || i != 1) {
        u.other = true;
        continue;
      }
      bool turned = false;
      for (const auto& a : node.attribute()) turned = turned || (gemm && a.name() == "transB" && a.i() != 0);
      (turned ? u.turned : u.straight) = true;
      u.readers.push_back(node.name());
      for (const auto& entry : node.metadata_props())
        if (entry.key() == "pkg.torch.onnx.name_scopes") u.readers.push_back(entry.value());
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) use_names(attribute.g(), false, uses);
      for (const auto& g : attribute.graphs()) use_names(g, false, uses);
    }
  }
}

void add_matrix(onnx::GraphProto& graph, const std::string& name, std::int64_t rows, std::int64_t columns, std::vector<float> values) {
  onnx::TensorProto& t = *graph.add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_dims(rows);
  t.add_dims(columns);
  t.set_raw_data(values.data(), values.size() * sizeof(float));
}

// The same on every machine, unlike the standard library's distributions.
std::vector<float> uniform(std::size_t count, double limit, std::uint64_t seed, const std::string& name) {
  std::uint64_t mixed = seed * 0x9E3779B97F4A7C15ULL;
  for (const char c : name) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  std::mt19937_64 random(mixed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(limit * (static_cast<double>(random() >> 11) * 0x1p-52 - 1));
  return values;
}

void set_integer(onnx::NodeProto& node, const char* name) {
  auto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(1);
}

}  // namespace

std::vector<LoraAdapter> add_adapters(onnx::ModelProto& model, const LoraOptions& options, const std::vector<std::string>& except, std::string& line) {
  onnx::GraphProto& graph = *model.mutable_graph();
  if (options.rank < 1) fail(ExitCode::usage, "option lora: r is ", options.rank, ", expected at least 1");
  if (!(options.alpha > 0 && std::isfinite(options.alpha))) fail(ExitCode::usage, "option lora: alpha is ", options.alpha, ", expected a positive number");
  std::map<std::string, Uses> uses;
  use_names(graph, true, uses);
  std::vector<LoraAdapter> adapters;
  std::map<std::string, std::string> adapted;
  std::set<std::string> met;
  std::int64_t trained = 0, all = 0;
  const int initializers = graph.initializer_size(), nodes = graph.node_size();
  const double scale = options.alpha / static_cast<double>(options.rank);
  for (int i = 0; i < initializers; ++i) {
    const onnx::TensorProto& w = graph.initializer(i);
    const std::string name = w.name();
    std::int64_t elements = 1;
    for (const auto d : w.dims()) elements *= d;
    if (w.data_type() == onnx::TensorProto::FLOAT) all += elements;
    const Uses u = uses[name];
    if (w.data_type() != onnx::TensorProto::FLOAT || w.dims_size() != 2 || elements < 1 || u.straight == u.turned || u.other) continue;
    if (std::find(except.begin(), except.end(), name) != except.end()) continue;
    if (matches_any(name, options.except)) continue;
    bool wanted = options.targets.empty();
    for (const std::string& pattern : options.targets)
      if (matches_any(name, {pattern}) || std::any_of(u.readers.begin(), u.readers.end(), [&](const std::string& reader) { return matches_any(reader, {pattern}); })) {
        met.insert(pattern);
        wanted = true;
      }
    if (!wanted) continue;
    const std::int64_t in = w.dims(u.turned ? 1 : 0), out = w.dims(u.turned ? 0 : 1), r = options.rank;
    if (r > std::min(in, out)) fail(ExitCode::usage, "option lora: r is ", r, ", and '", name, "' has ", in, " inputs and ", out, " outputs: expected at most the smaller of these");
    LoraAdapter adapter{.weight = name, .a = name + ".lora_A", .b = name + ".lora_B", .result = name + ".lora_W", .scale = scale, .turned = u.turned};
    for (const std::string& fresh : {adapter.a, adapter.b, adapter.result})
      if (uses.contains(fresh)) fail(ExitCode::usage, "option lora: the model has a '", fresh, "' already");
    add_matrix(graph, adapter.a, r, in, uniform(static_cast<std::size_t>(r * in), 1 / std::sqrt(static_cast<double>(in)), options.seed, name));
    add_matrix(graph, adapter.b, out, r, std::vector<float>(static_cast<std::size_t>(out * r)));
    onnx::NodeProto& node = *graph.add_node();
    node.set_name(adapter.result);
    node.set_op_type("Gemm");
    node.add_input(u.turned ? adapter.b : adapter.a);
    node.add_input(u.turned ? adapter.a : adapter.b);
    node.add_input(name);
    node.add_output(adapter.result);
    if (!u.turned) {
      set_integer(node, "transA");
      set_integer(node, "transB");
    }
    auto& alpha = *node.add_attribute();
    alpha.set_name("alpha");
    alpha.set_type(onnx::AttributeProto::FLOAT);
    alpha.set_f(static_cast<float>(scale));
    adapted[name] = adapter.result;
    trained += r * (in + out);
    adapters.push_back(std::move(adapter));
  }
  for (const std::string& pattern : options.targets)
    if (!met.contains(pattern))
      fail(ExitCode::usage, "option lora: targets '", pattern, "': no float32 matrix that MatMul or Gemm alone read goes by that name, nor does a node that reads one");
  if (adapters.empty()) fail(ExitCode::usage, "option lora: the model has no float32 matrix that MatMul or Gemm alone read");
  for (int i = 0; i < nodes; ++i)
    if (auto& n = *graph.mutable_node(i); n.input_size() > 1)
      if (const auto it = adapted.find(n.input(1)); it != adapted.end()) n.set_input(1, it->second);
  // They read initializers alone: in front of all else.
  onnx::GraphProto ordered;
  for (int i = nodes; i < graph.node_size(); ++i) *ordered.add_node() = std::move(*graph.mutable_node(i));
  for (int i = 0; i < nodes; ++i) *ordered.add_node() = std::move(*graph.mutable_node(i));
  graph.mutable_node()->Swap(ordered.mutable_node());
  line = concat("lora: ", adapters.size(), adapters.size() == 1 ? " weight has an adapter" : " weights have adapters", options.targets.empty() ? " (all matrices of MatMul and Gemm)" : "",
                ", r ", options.rank, ", alpha ", options.alpha, ": ", trained, " numbers are trained beside the template's ", all, ", which stay but for a new head and what unfreeze names");
  return adapters;
}

void remove_adapters(onnx::ModelProto& model, const std::vector<LoraAdapter>& adapters) {
  if (adapters.empty()) return;
  onnx::GraphProto& graph = *model.mutable_graph();
  std::map<std::string, std::string> back;
  std::set<std::string> added;
  for (const LoraAdapter& a : adapters) {
    back[a.result] = a.weight;
    added.insert({a.a, a.b});
  }
  auto& nodes = *graph.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    if (nodes[i].output_size() > 0 && back.contains(nodes[i].output(0))) continue;
    for (auto& in : *nodes[i].mutable_input())
      if (const auto it = back.find(in); it != back.end()) in = it->second;
    nodes.SwapElements(kept++, i);
  }
  nodes.DeleteSubrange(kept, nodes.size() - kept);
  auto& held = *graph.mutable_initializer();
  kept = 0;
  for (int i = 0; i < held.size(); ++i)
    if (!added.contains(held[i].name())) held.SwapElements(kept++, i);
  held.DeleteSubrange(kept, held.size() - kept);
}

void merge(const LoraAdapter& adapter, const Tensor& a, const Tensor& b, Tensor& weight) {
  const std::int64_t r = a.shape()[0], in = a.shape()[1], out = b.shape()[0];
  visit_float(weight.dtype(), [&]<class T>() {
    const auto x = a.values<T>();
    const auto y = b.values<T>();
    auto w = weight.write<T>();
    std::vector<double> row(static_cast<std::size_t>(in));
    for (std::int64_t o = 0; o < out; ++o) {
      std::fill(row.begin(), row.end(), 0.0);
      for (std::int64_t k = 0; k < r; ++k)
        for (std::int64_t i = 0; i < in; ++i) row[static_cast<std::size_t>(i)] += static_cast<double>(y[static_cast<std::size_t>(o * r + k)]) * static_cast<double>(x[static_cast<std::size_t>(k * in + i)]);
      for (std::int64_t i = 0; i < in; ++i) {
        T& v = w[static_cast<std::size_t>(adapter.turned ? o * in + i : i * out + o)];
        v = static_cast<T>(static_cast<double>(v) + adapter.scale * row[static_cast<std::size_t>(i)]);
      }
    }
  });
}

}  // namespace tandem
