// Sizes that nobody means, in every operator: the node tests with an attribute, an axis of an input or a static operand at the
// limits of its type. Imported and planned, for inference and for training, each ends in a plan or in an Error, with little
// memory and in bounded work. TANDEM_EXTREME_SIZES says how many changes of each case are tried, by default a sample: "20+100"
// are twenty, from the hundredth on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <random>

#include "graph/operator.h"
#include "tandem_onnx.pb.h"
#include "tests/operators/node_cases.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

using namespace test;

constexpr rlim_t room = rlim_t{800} << 20;  // bytes of address space for all that one change asks for
#ifdef TANDEM_SANITIZED
constexpr int processor_seconds = 100;
#else
constexpr int processor_seconds = 10;  // far more than any change needs: a loop without end is ended by it
#endif
constexpr std::int64_t one = 1, most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t whole[] = {0, 1, -1, 2, 1 << 20, 1 << 24, 1 << 27, 0x7FFFFFFF, 0x80000000, -0x80000000LL, one << 32, (one << 32) + 1,
                                  one << 40, one << 62, most, least};
constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr float real[] = {0, -1, 1e-38F, 1e10F, 3e38F, infinity, -infinity, nan};

using Random = std::minstd_rand;
template <class List>
const auto& one_of(const List& list, Random& random) { return list[random() % std::size(list)]; }

// A case, as it will be changed.
struct Changed {
  onnx::ModelProto model;
  ImportOptions options;
  std::string what;  // was changed, for people
};

// The attributes that an operator's cases have, all together.
using AttributesOf = std::map<std::string, std::map<std::string, onnx::AttributeProto>>;

onnx::ModelProto read(const NodeCase& one) {
  std::ifstream in(one.folder / "model.onnx", std::ios::binary);
  onnx::ModelProto model;
  if (!model.ParseFromIstream(&in)) fail(ExitCode::io, "'", one.folder.string(), "' holds no model");
  return model;
}

void change_axis(Changed& c, Random& random) {
  std::vector<onnx::TensorShapeProto::Dimension*> dims;
  for (auto& input : *c.model.mutable_graph()->mutable_input())
    for (auto& d : *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (d.has_dim_value()) dims.push_back(&d);
  if (dims.empty()) return;
  const std::int64_t old = one_of(dims, random)->dim_value(), now = one_of(whole, random);
  const bool all = random() % 2 == 0;  // axes that are as long are mostly the same thing
  if (all)
    for (auto* d : dims)
      if (d->dim_value() == old) d->set_dim_value(now);
  if (!all) const_cast<onnx::TensorShapeProto::Dimension*>(one_of(dims, random))->set_dim_value(now);
  c.what += concat(all ? "; axes of " : "; an axis, not of ", old, " are now ", now);
}

void change_attribute(Changed& c, const AttributesOf& known, Random& random) {
  if (c.model.graph().node_size() == 0) return;
  const auto nodes = static_cast<unsigned>(c.model.graph().node_size());
  onnx::NodeProto& node = *c.model.mutable_graph()->mutable_node(static_cast<int>(random() % nodes));
  const auto of = known.find(node.op_type());
  if (of == known.end() || of->second.empty()) return;
  const auto drawn = static_cast<std::ptrdiff_t>(random() % of->second.size());
  const onnx::AttributeProto& example = std::next(of->second.begin(), drawn)->second;
  onnx::AttributeProto* a = nullptr;
  for (auto& given : *node.mutable_attribute())
    if (given.name() == example.name()) a = &given;
  if (!a) *(a = node.add_attribute()) = example;
  if (a->has_i()) a->set_i(one_of(whole, random));
  if (a->has_f()) a->set_f(one_of(real, random));
  const std::int64_t now = one_of(whole, random);
  const bool all = random() % 2 == 0;
  const int at = static_cast<int>(random() % static_cast<unsigned>(std::max(1, a->ints_size())));
  for (int i = 0; i < a->ints_size(); ++i)
    if (all || i == at) a->set_ints(i, now);
  for (int i = 0; i < a->floats_size(); ++i) a->set_floats(i, one_of(real, random));
  c.what += concat("; ", node.op_type(), "'s ", a->name());
  if (a->has_i()) c.what += concat(" ", a->i());
  if (a->has_f()) c.what += concat(" ", static_cast<double>(a->f()));
  if (a->ints_size() > 0) c.what += concat(all ? " all " : " in part ", now);
}

void change_operand(Changed& c, Random& random) {
  if (c.options.constants.empty()) return;
  const auto drawn = static_cast<std::ptrdiff_t>(random() % c.options.constants.size());
  auto& [name, tensor] = *std::next(c.options.constants.begin(), drawn);
  if (tensor.elements() == 0 || (is_float(tensor.dtype()) && tensor.dtype() != DType::float32)) return;
  std::vector<double> now = tensor.to_doubles();
  const bool all = random() % 2 == 0;
  const std::size_t at = random() % now.size();
  if (tensor.dtype() == DType::float32) {
    const float value = one_of(real, random);
    tensor = tensor.cast(DType::float32);
    for (std::size_t i = 0; i < now.size(); ++i)
      if (all || i == at) tensor.write<float>()[i] = value;
    c.what += concat("; operand ", name, all ? " all " : " in part ", static_cast<double>(value));
  } else if (tensor.dtype() == DType::int64) {
    const std::int64_t value = one_of(whole, random);
    for (std::size_t i = 0; i < now.size(); ++i)
      if (all || i == at) tensor.write<std::int64_t>()[i] = value;
    c.what += concat("; operand ", name, all ? " all " : " in part ", value);
  }
}

// The float inputs as parameters without values, and Σ y² as the loss.
std::optional<Graph> with_loss(Graph graph) {
  std::vector<ValueId> left;
  for (const ValueId in : graph.inputs) {
    Value& v = graph[in];
    if (!is_float(v.type.dtype)) {
      left.push_back(in);
      continue;
    }
    v.kind = ValueKind::parameter;
    v.trainable = true;
    v.template_shape = v.type.shape;
    v.depends_on_batch = false;
  }
  graph.inputs = left;
  GraphBuilder b(graph, "check", {});
  ValueId loss;
  const std::vector<GraphOutput> outputs = graph.outputs;
  for (const ValueId out : outputs) {
    const TensorType type = graph[out].type;
    if (!is_float(type.dtype) || graph[out].kind != ValueKind::activation) continue;
    Ints axes(static_cast<std::size_t>(type.shape.rank()));
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
    const ValueId sum = axes.empty() ? b.mul(out, out) : b.reduce_sum(b.mul(out, out), axes, false);
    loss = loss.present() ? b.add(loss, sum) : sum;
  }
  if (!loss.present()) return std::nullopt;
  graph.outputs = {loss};
  return graph;
}

void plan(const Graph& graph, PlanMode mode) {
  const TestedBackend backend = tested_backend();
  const Backend* const backends[] = {backend.get()};
  CompileOptions o;
  o.mode = mode;
  o.batch = 1;
  o.loss.name = "output";
  o.devices = {{{backend->name(), 0}}};
  compile([&](std::int64_t) { return graph; }, o, backends);
}

// "" where it ended well.
std::string outcome(const Changed& c) {
  const auto caught = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      const std::string_view text = error.what();
      const bool of_memory = text.find("out of memory while") != text.npos || text.find("takes more memory than there is") != text.npos;
      return of_memory ? concat("takes more than ", room >> 20, " MiB: ", text) : "";
    } catch (const std::exception& other) {
      return concat("no Error: ", other.what());
    }
    return "";
  };
  std::string findings;
  for (const bool training : {false, true})
    findings += caught([&] {
      const ModelFile file = ModelFile::parse(c.model.SerializeAsString(), {});
      ImportOptions options = c.options;
      options.training = training;
      options.keep_halves = !training;
      Graph graph = file.graph(options);
      if (!training) return plan(graph, PlanMode::inference);
      if (const std::optional<Graph> trained = with_loss(std::move(graph))) plan(*trained, PlanMode::training);
    });
  return findings;
}

rlim_t address_space() {
  std::ifstream in("/proc/self/statm");
  rlim_t pages = 0;
  in >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// Of the changes that a run of the test makes, in an order of its own: what is being tried, and those that ended badly.
struct Shared {
  std::size_t next;
  char what[4096], findings[1 << 16];
};

void add(char* text, std::size_t room_for, const std::string& more) { std::strncat(text, more.c_str(), room_for - std::strlen(text) - 1); }

Changed changed(const NodeCase& one, const AttributesOf& known, std::size_t number) {
  const LoadedCase loaded = load(one);
  Changed c{read(one), import_options(loaded, false), one.name};
  Random random(static_cast<unsigned>(std::hash<std::string>()(one.name) + 7919 * number));
  for (std::size_t n = 1 + random() % 2; n > 0; --n) {
    switch (random() % 3) {
      case 0: change_axis(c, random); break;
      case 1: change_attribute(c, known, random); break;
      default: change_operand(c, random);
    }
  }
  return c;
}

// A child takes one change after the other; where it dies, the next child goes on behind.
void try_all(const NodeSuite& suite, std::size_t first_change, std::size_t changes) {
  AttributesOf known;
  for (const NodeCase& one : suite.cases) {
    const onnx::ModelProto model = read(one);
    for (const onnx::NodeProto& node : model.graph().node())
      for (const onnx::AttributeProto& a : node.attribute()) known[node.op_type()].emplace(a.name(), a);
  }
  auto* const shared = static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  const std::size_t all = suite.cases.size() * changes;
  for (int deaths = 0; shared->next < all && deaths < 100;) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
#ifndef TANDEM_SANITIZED
      const rlimit space{address_space() + room, address_space() + room}, none{0, 0};
      setrlimit(RLIMIT_AS, &space);
      setrlimit(RLIMIT_CORE, &none);
#endif
      while (shared->next < all) {
        const std::size_t i = shared->next++;
        const NodeCase& one = suite.cases[i / changes];
        try {
          const Changed c = changed(one, known, first_change + i % changes);
          std::strncpy(shared->what, concat(c.what, ", change ", first_change + i % changes).c_str(), sizeof(shared->what) - 1);
          const itimerval limit{{0, 0}, {processor_seconds, 0}};
          setitimer(ITIMER_PROF, &limit, nullptr);
          const std::string found = outcome(c);
          if (!found.empty()) add(shared->findings, sizeof(shared->findings), concat(shared->what, ": ", found, '\n'));
        } catch (const Error&) {  // the case is none of ours as it stands
        } catch (const std::exception& other) {  // not to leave the child
          add(shared->findings, sizeof(shared->findings), concat(one.name, ": ", other.what(), '\n'));
        }
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ++deaths;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
      ADD_FAILURE() << shared->what << ": takes more than " << processor_seconds << " s of a processor";
    else if (WIFSIGNALED(status))
      ADD_FAILURE() << shared->what << ": ended by signal " << WTERMSIG(status);
    else
      ADD_FAILURE() << shared->what << ": ended with exit code " << WEXITSTATUS(status);
  }
  EXPECT_STREQ(shared->findings, "");
  EXPECT_EQ(shared->next, all);
  munmap(shared, sizeof(Shared));
}

void try_suite(const NodeSuite& suite) {
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  const char* const wanted = std::getenv("TANDEM_EXTREME_SIZES");
  const std::string text = wanted ? wanted : "3";
  const std::size_t from = text.find('+') == text.npos ? 0 : std::stoul(text.substr(text.find('+') + 1));
  try_all(suite, from, std::stoul(text));
}

TEST(ExtremeSizes, OfDebiansNodeTests) { try_suite(debian_suite()); }
TEST(ExtremeSizes, OfNewerNodeTests) { try_suite(shared_suite()); }
TEST(ExtremeSizes, OfOnnxRuntimesOperators) { try_suite(onnxruntime_suite()); }

}  // namespace
}  // namespace tandem
