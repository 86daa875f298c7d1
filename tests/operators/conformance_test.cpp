// Every ONNX node test of the operators we have, imported, planned, run on the CPU and compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>

#include "graph/operator.h"
#include "kernels/cpu/native/half.h"
#include "tests/operators/node_cases.h"
#include "tests/operators/run_graph.h"
#include "tests/operators/skipped_cases.h"
#include "tests/operators/tolerance.h"

namespace tandem {
namespace {

using namespace test;

enum class Outcome { passed, failed, other_operators };
struct Result {
  Outcome outcome;
  std::string reason;
};

// 16-bit floats, which Tensor does not convert.
std::vector<double> doubles_of(const Tensor& t) {
  if (t.dtype() != DType::float16 && t.dtype() != DType::bfloat16) return t.to_doubles();
  std::vector<double> out;
  for (std::size_t i = 0; i < t.bytes().size(); i += 2) {
    std::uint16_t bits;
    std::memcpy(&bits, t.bytes().data() + i, 2);
    out.push_back(t.dtype() == DType::float16 ? native::to_float(native::Float16{bits}) : native::to_float(native::BFloat16{bits}));
  }
  return out;
}

// The first difference of two tensors, or nothing.
std::string difference(const Tensor& got, const Tensor& want, double relative) {
  if (got.type() != want.type()) return concat("is ", got.type(), ", expected ", want.type());
  const std::vector<double> a = doubles_of(got), b = doubles_of(want);
  double scale = 0;
  for (const double v : b)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::abs(a[i] - b[i]) <= relative * scale)) return concat("differs at element ", i, " of ", want.shape(), ": ", a[i], ", expected ", b[i], " ± ", relative * scale);
  }
  return "";
}

Result run_case(const NodeCase& one) {
  try {
    const LoadedCase loaded = load(one);
    const ImportOptions options = import_options(loaded, false);
    for (const Problem& p : loaded.model.problems(options))
      if (p.reason.find("operator is not supported") != std::string::npos) return {Outcome::other_operators, p.op};
    const Graph graph = loaded.model.graph(options);
    std::vector<Tensor> results;
    std::vector<NamedTensor> made;
    const auto known = [&](ValueId v) { return graph[v].kind == ValueKind::constant; };
    if (!std::all_of(graph.outputs.begin(), graph.outputs.end(), known)) made = GraphRun(graph).run(loaded.inputs);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) results.push_back(known(graph.outputs[i]) ? *graph[graph.outputs[i]].data : made.at(i).tensor);
    if (results.size() != loaded.outputs.size()) return {Outcome::failed, concat("gives ", results.size(), " outputs, expected ", loaded.outputs.size())};
    for (std::size_t i = 0; i < results.size(); ++i)
      if (const std::string d = difference(results[i], loaded.outputs[i], tolerance(results[i].dtype(), reduction_length(graph))); !d.empty())
        return {Outcome::failed, concat("output ", i, ' ', d)};
    return {Outcome::passed, ""};
  } catch (const std::exception& e) {
    std::string text = e.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return {Outcome::failed, text};
  }
}

void run_suite(const NodeSuite& suite) {
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  std::map<std::string, int> skipped, other;
  int passed = 0;
  for (const NodeCase& one : suite.cases) {
    const Result r = run_case(one);
    const char* reason = reason_to_skip(one.name);
    if (r.outcome == Outcome::other_operators) {
      ++other[r.reason];
      if (reason) ADD_FAILURE() << one.name << " is listed as skipped (" << reason << "), but its operator " << r.reason << " is not one of ours";
    } else if (r.outcome == Outcome::passed) {
      ++passed;
      if (reason) ADD_FAILURE() << one.name << " is listed as skipped (" << reason << "), but it passes";
    } else if (reason) {
      ++skipped[reason];
    } else {
      ADD_FAILURE() << one.name << ": " << r.reason;
    }
  }
  int skips = 0, others = 0;
  for (const auto& [reason, n] : skipped) skips += n;
  for (const auto& [op, n] : other) others += n;
  std::cout << suite.name << ": " << suite.cases.size() << " cases, " << passed << " passed, " << skips << " skipped, " << others << " of operators that are not ours\n";
  for (const auto& [reason, n] : skipped) std::cout << "  skipped " << n << ": " << reason << '\n';
  EXPECT_GT(passed, 0);
}

TEST(Conformance, DebiansNodeTests) { run_suite(debian_suite()); }
TEST(Conformance, NewerNodeTests) { run_suite(shared_suite()); }

}  // namespace
}  // namespace tandem
