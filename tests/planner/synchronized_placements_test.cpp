// Batch normalization of all samples where parameters, which it then holds as [1,C,1,1], lie on one device, in parts, or elsewhere.
#include "planner/place/parallel.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

struct Way {
  const char* name;
  std::size_t devices;
  const char* parallel;
  void (*more)(CompileOptions&);
  const char* optimizer = "sgd";
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
class SynchronizedPlacements : public testing::TestWithParam<Way> {};

TEST_P(SynchronizedPlacements, TrainAsOneDevice) {
  const Way& way = GetParam();
  CompileOptions one = options_for(8, {1}), many = shared_by(way.devices, way.parallel);
  for (CompileOptions* o : {&one, &many}) {
    o->optimizer = optimizer_defaults(way.optimizer);
    o->synchronize_batch_norm = true;
  }
  way.more(many);
  Trained alone = train(normalized, one, 8, 0.02), shared = train(normalized, many, 8, 0.02);
  for (Trained* t : {&alone, &shared}) std::ranges::sort(t->replicas[0], {}, &NamedTensor::name);  // a device's own come first
  expect_close(shared, alone);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, SynchronizedPlacements,
    testing::Values(Way{"weights_on_one", 3, "data=3", [](CompileOptions& o) { o.parallel.weights_on = 0; }},
                    Way{"weights_by_owner", 2, "zero=1", [](CompileOptions&) {}, "lamb"},
                    Way{"a_layer_elsewhere", 2, "", [](CompileOptions& o) { o.parallel.places = {{.pattern = "Gemm5", .devices = {1}}}; }},
                    Way{"scales_in_parts", 4, "data=2,tensor=2",
                        [](CompileOptions& o) { o.parallel.splits = parse_splits({"scale=tensor:0", "bias=tensor:0"}); }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
