// Plans of small models on CPU devices that share the work, and what is asked of them.
#pragma once
#include <gtest/gtest.h>

#include <set>

#include "planner/place/parallel.h"
#include "tests/planner/small_models.h"

namespace tandem::small_models {

inline Plan plan_of(Graph (*model)(std::int64_t), const CompileOptions& o) {
  const Backend* backends[] = {&cpu_backend()};
  return compile(model, o, backends);
}

inline CompileOptions shared_by(std::size_t devices, const char* parallel, std::vector<Parallelism::Split> splits = {}) {
  CompileOptions o = options_for(8, std::vector<double>(devices, 1));
  o.parallel = parse_parallelism(parallel);
  o.parallel.splits = std::move(splits);
  return o;
}

// Parameters of which a device has a part, with the axis of each cut and in how many runs, or their widths: "q:1", "q:1:0", "qkv:1/3",
// "qkv:1/2:1:1".
inline std::set<std::string> split_of(const Plan& plan) {
  std::set<std::string> names;
  for (const PlanParameter& p : plan.parameters)
    for (const ProgramPart& part : p.parts) {
      if (p.role != ValueRole::plain || part.is_whole()) continue;
      std::string name = p.name;
      for (const ProgramRange& range : part.ranges) {
        name += concat(':', range.axis, range.outer > 1 && range.widths.empty() ? concat('/', range.outer) : "");
        for (std::size_t i = 0; i < range.widths.size(); ++i) name += concat(i > 0 ? ':' : '/', range.widths[i]);
      }
      names.insert(std::move(name));
    }
  return names;
}

// Losses, as parts of the first one, and the norm of the difference of each parameter, as a part of its norm, wherever it lives.
inline void expect_trained_alike(const Trained& some, const Trained& one, double tolerance) {
  for (std::size_t s = 0; s < one.losses.size(); ++s)
    EXPECT_NEAR(some.losses[s], one.losses[s], tolerance * one.losses[0]) << "step " << s;
  for (const NamedTensor& wanted : one.replicas[0]) {
    double off = 0, all = 0;
    bool found = false;
    for (const auto& replica : some.replicas)
      for (const NamedTensor& got : replica) {
        if (got.name != wanted.name) continue;
        found = true;
        if (wanted.tensor.dtype() != DType::float32) {
          EXPECT_TRUE(std::ranges::equal(got.tensor.bytes(), wanted.tensor.bytes())) << wanted.name;
          continue;
        }
        const auto a = got.tensor.values<float>(), b = wanted.tensor.values<float>();
        ASSERT_EQ(a.size(), b.size()) << wanted.name;
        for (std::size_t i = 0; i < b.size(); ++i) {
          off += (a[i] - b[i]) * (a[i] - b[i]);
          all += b[i] * b[i];
        }
      }
    EXPECT_TRUE(found) << wanted.name;
    EXPECT_LE(std::sqrt(off), tolerance * std::sqrt(all)) << wanted.name;
  }
}

// The plan is refused as a mistake of who asks, with this among other words.
inline void expect_refused(Graph (*model)(std::int64_t), const CompileOptions& o, const std::string& message) {
  try {
    plan_of(model, o);
    ADD_FAILURE() << "taken, expected: " << message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
  }
}

}  // namespace tandem::small_models
