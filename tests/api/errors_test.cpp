// Errors can be caught by the kind of what went wrong.
#include <gtest/gtest.h>

#include "tandem/tandem.h"

namespace tandem {
namespace {

template <class Kind>
void expect_kind(ExitCode code) {
  try {
    fail(code, "what went wrong");
  } catch (const Kind& e) {
    EXPECT_EQ(e.code(), code);
    EXPECT_EQ(std::string(e.what()), "what went wrong");
    return;
  } catch (const Error&) {
  }
  ADD_FAILURE() << static_cast<int>(code) << " is of another class";
}

TEST(Errors, AreOfTheClassOfTheirCode) {
  expect_kind<UsageError>(ExitCode::usage);
  expect_kind<ModelError>(ExitCode::model);
  expect_kind<DataError>(ExitCode::data);
  expect_kind<DeviceError>(ExitCode::device);
  expect_kind<CommunicationError>(ExitCode::communication);
  expect_kind<IoError>(ExitCode::io);
  expect_kind<DivergedError>(ExitCode::diverged);
  EXPECT_THROW(Model::load("no such file"), IoError);
}

TEST(Errors, StoppedIsOne) {
  Options options = Options::parse(R"({"batch-size": 2, "devices": "cpu"})");
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  RunOptions run = options.as(Purpose::plan).run(model, backends());
  Prepared p = prepare(model, std::move(run), backends());
  p.options.plan.stop = [] { return true; };
  try {
    model.compile(p.options, backends());
    ADD_FAILURE() << "it was planned";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resumable);
    EXPECT_TRUE(dynamic_cast<const Stopped*>(&e));
  }
}

}  // namespace
}  // namespace tandem
