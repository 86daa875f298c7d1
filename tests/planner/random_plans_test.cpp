// Plans of random models on random devices verify; each in which a device enters two exchanges in the other order, or a step reads what is
// gone, does not.
#include <gtest/gtest.h>

#include <random>

#include "planner/place/parallel.h"
#include "planner/plan/plan_file.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  int from(int least, int most) { return least + below(most - least + 1); }
  bool one_in(int n) { return below(n) == 0; }
  template <class List>
  auto& of(List& list) {
    return list[at(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937 engine_;
};

// Layers of some widths, with residuals, normalizations and dropout between them.
struct Layers {
  unsigned seed;
  int count;
  std::vector<std::int64_t> widths;  // count + 1
  explicit Layers(unsigned s) : seed(s) {
    Random random(s);
    count = random.from(1, 5);
    for (int i = 0; i <= count; ++i) widths.push_back(8 * random.from(1, 4));
  }
  Graph operator()(std::int64_t n) const {
    Random random(seed);
    Builder b;
    b.graph.name = "layers";
    ValueId x = b.graph.add_input("x", {DType::float32, {n, widths[0]}});
    for (int i = 0; i < count; ++i) {
      const std::int64_t in = widths[at(i)], out = widths[at(i + 1)];
      const std::string name = concat("layer", i);
      if (random.one_in(3))
        x = b.node("LayerNormalization", {x, b.weight(name + "/scale", {in}, 0.5F), b.weight(name + "/shift", {in}, 0.1F)},
                   {{"axis", std::int64_t{-1}}});
      ValueId y = gemm(b, x, name, in, out, !random.one_in(3));
      y = random.one_in(4) ? y : b.node(random.one_in(2) ? "Relu" : "Gelu", {y});
      x = in == out && random.one_in(2) ? b.node("Add", {x, y}) : y;
    }
    b.graph.outputs = {gemm(b, x, "head", widths.back(), 5)};
    return b.graph;
  }
};

// Stages of as many devices, each with its share of the samples.
PlacementRequest stages(Random& random, const Layers& model, int groups, int each, std::int64_t batch) {
  PlacementRequest request;
  std::vector<std::int64_t> sizes(at(each), batch / each);
  sizes[0] += batch % each;
  for (int g = 0; g < groups; ++g) {
    DeviceGroup group{.name = concat("stage", g), .axes = {}, .devices = {}};
    if (each > 1) group.axes = {{"data", sizes, true}};
    for (int d = 0; d < each; ++d) group.devices.push_back(g * each + d);
    request.groups.push_back(std::move(group));
  }
  int stage = 0;
  for (int i = 0; i < model.count; ++i) {
    request.nodes[concat("layer", i)] = stage;
    stage = std::min(groups - 1, stage + random.below(2));
  }
  request.nodes["head"] = groups - 1;
  if (each > 1) request.values["x"] = {Part::split(0)};
  return request;
}

CompileOptions random_options(Random& random, const Layers& model) {
  const int devices = random.from(1, 8);
  std::vector<double> weights;
  for (int d = 0; d < devices; ++d) weights.push_back(random.one_in(3) ? random.below(3) : 1);
  weights[0] = 1;
  CompileOptions o = options_for(random.from(1, 12), weights);
  o.passes.verify = false;
  if (random.one_in(3)) o.optimizer = optimizer_defaults("adamw");
  if (random.one_in(4)) o.mode = PlanMode::inference;
  o.memory.first_bucket_bytes = o.memory.bucket_bytes = 256 << random.below(6);
  switch (random.below(4)) {
    case 0: break;  // data
    case 1: o.parallel = parse_parallelism(concat("zero=", random.from(1, 3))); break;
    case 2:
      for (const int tensor : {2, 4})
        if (devices % tensor == 0 && !random.one_in(3)) {
          o.parallel = parse_parallelism(concat("data=*,tensor=", tensor));
          for (DeviceSpec& d : o.devices) d.weight = 1;
        }
      break;
    default:
      for (const int groups : {2, 3})
        if (devices % groups == 0) o.placement = stages(random, model, groups, devices / groups, o.batch);
  }
  if (o.mode == PlanMode::training && random.one_in(4)) o.optimizer.clip_norm = 1;
  if (o.mode == PlanMode::training && random.one_in(4)) o.memory.recompute = {"*"};
  return o;
}

// The device gets a program of its own, to be changed.
DeviceProgram& own_program(Plan& plan, std::size_t device) {
  const ProgramId before = plan.devices[device].program;
  if (plan.devices_of(before).size() == 1) return plan.programs[before];
  const ProgramId own = plan.programs.add(plan.programs[before]);
  for (PlanParameter& p : plan.parameters)
    if (const ProgramPart* part = p.on(before)) {
      ProgramPart copy = *part;
      copy.program = own;
      p.parts.push_back(std::move(copy));
    }
  plan.devices[device].program = own;
  return plan.programs[own];
}

// Swaps two exchanges of a device, in each of which the same other device takes part. False where there are none.
bool swap_exchanges(Plan& plan, Random& random) {
  const auto d = at(random.below(static_cast<int>(plan.devices.size())));
  struct Pair {
    int first, second;
  };
  std::vector<Pair> pairs;
  const IdVector<StepId, Step>& steps = plan.program_of(d).steps;
  const auto others = [&](const ExchangeStep& e) {
    const Exchange& x = plan.exchanges[e.exchange];
    return x.row(*x.row_of(static_cast<int>(d)));
  };
  for (int a = 0; a < std::ssize(steps); ++a)
    for (int b = a + 1; b < std::ssize(steps); ++b) {
      const auto *x = steps[StepId{a}].as<ExchangeStep>(), *y = steps[StepId{b}].as<ExchangeStep>();
      if (!x || !y) continue;
      const auto in_both = [&](int other) { return other != static_cast<int>(d) && std::ranges::count(others(*y), other) > 0; };
      if (std::ranges::any_of(others(*x), in_both)) pairs.push_back({a, b});
    }
  if (pairs.empty()) return false;
  const Pair pair = random.of(pairs);
  DeviceProgram& own = own_program(plan, d);
  Step &first = own.steps[StepId{pair.first}], &second = own.steps[StepId{pair.second}];
  if (random.one_in(2))
    std::swap(first.what, second.what);
  else
    std::swap(first, second);
  std::erase_if(first.waits, [&](StepId w) { return w.index >= pair.first; });
  return true;
}

// Makes a step read a value whose memory another has by then. False where none has.
bool read_what_is_gone(Plan& plan, Random& random) {
  DeviceProgram& program = random.of(plan.programs);
  struct Read {
    int step;
    BufferId instead_of, gone;
    bool kept;  // as if its life went on
  };
  std::vector<Read> reads;
  const auto each_read = [&](int from, int to, const auto& call) {
    for (int s = from; s <= to; ++s)
      for (const BufferId in : program.steps[StepId{s}].inputs)
        if (in.present()) call(s, in);
  };
  for (BufferId x{0}; x.index < std::ssize(program.buffers); ++x.index) {
    const Buffer& gone = program.buffers[x];
    if (gone.arena != ArenaKind::scratch || gone.bytes == 0) continue;
    for (BufferId y{0}; y.index < std::ssize(program.buffers); ++y.index) {
      const Buffer& now = program.buffers[y];
      const bool apart = now.offset + now.bytes <= gone.offset || gone.offset + gone.bytes <= now.offset;
      if (now.arena != ArenaKind::scratch || now.bytes == 0 || apart) continue;
      // in memory that it had before
      if (!gone.alias.present() && !now.alias.present() && gone.last < now.first)
        each_read(now.first.index + 1, now.last.index, [&](int s, BufferId in) { reads.push_back({s, in, x, random.one_in(2)}); });
      // written in its place
      if (now.alias != x) continue;
      for (StepId t{0}; t.index < std::ssize(program.steps); ++t.index)
        if (std::ranges::count(program.steps[t].outputs, y) > 0 && std::ranges::count(program.steps[t].inputs, x) > 0)
          each_read(t.index + 1, now.last.index, [&](int s, BufferId in) {
            if (in == y && gone.operand == now.operand) reads.push_back({s, y, x, true});
          });
    }
  }
  if (reads.empty()) return false;
  const Read read = random.of(reads);
  for (BufferId& in : program.steps[StepId{read.step}].inputs)
    if (in == read.instead_of) in = read.gone;
  Buffer& gone = program.buffers[read.gone];
  if (read.kept) gone.last = std::max(gone.last, StepId{read.step});
  return true;
}

bool verifies(const Plan& plan) {
  try {
    verify(plan);
    return true;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::model);
    return false;
  }
}

TEST(RandomPlans, VerifyAndAreRefusedOnceTheyAreBroken) {
  const Backend* backends[] = {&cpu_backend()};
  constexpr int wanted = 1000;
  int made = 0, swapped = 0, gone = 0, shared = 0;
  for (unsigned seed = 1; made < wanted; ++seed) {
    ASSERT_LT(seed, 2U * wanted) << "most cannot be placed";
    Random random(seed);
    const Layers model(seed);
    Plan plan;
    try {
      plan = compile(model, random_options(random, model), backends);  // which verifies it
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ExitCode::usage) << "seed " << seed << ": " << e.what();
      continue;
    }
    ++made;
    shared += plan.programs.size() < plan.devices.size();
    const std::string file = serialize(plan);
    EXPECT_EQ(serialize(parse_plan(file)), file) << "seed " << seed;
    if (Plan broken = plan; swap_exchanges(broken, random)) {
      ++swapped;
      EXPECT_FALSE(verifies(broken)) << "seed " << seed << ": exchanges of a device in the other order";
    }
    if (Plan broken = plan; read_what_is_gone(broken, random)) {
      ++gone;
      EXPECT_FALSE(verifies(broken)) << "seed " << seed << ": a value that is gone is read";
    }
  }
  EXPECT_GT(shared, wanted / 3) << "programs that devices share";
  EXPECT_GT(swapped, wanted / 2);
  EXPECT_GT(gone, wanted / 2);
}

}  // namespace
}  // namespace tandem
