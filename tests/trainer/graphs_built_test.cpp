// A run asks for its model's graph some forty times; it is built for the batch and, to tell rows of samples apart, for twice the batch.
#include "tests/trainer/model_runs.h"

namespace tandem {
namespace {

using namespace model_tests;

struct Row {
  const char *name, *devices;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
const Row rows[] = {{"one_device", "cpu"}, {"two_devices", "cpu:0-1"}, {"uneven_devices", "cpu:0-2"}};

class GraphsBuiltTest : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Rows, GraphsBuiltTest, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST_P(GraphsBuiltTest, a_training_builds_two) {
  ModelOptions o = options(20, GetParam().devices);
  Model model = Model::load(template_path("lenet"));
  model.source().check(o, backends);
  const Splits data = open_data("synthetic:digits,train=40,test=20", model.data_request(o));
  model.source().fit_constants(o, *data.train);
  model.source().fit_labels(o, *data.train);
  model.source().check_data(*data.train, o, {});
  model.source().fit_inputs(o, *data.train, {});
  model.compile(o, backends);
  model.fit(*data.train, {.epochs = 1});
  EXPECT_LE(model.file().graphs_built(), 2);
}

}  // namespace
}  // namespace tandem
