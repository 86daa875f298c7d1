// How devices share the work, as people write it.
#include <gtest/gtest.h>

#include "planner/place/parallel.h"

namespace tandem {
namespace {

struct Text {
  const char *text, *wanted;  // as it is written again; or what the error says
};
class ParallelTexts : public testing::TestWithParam<Text> {};
TEST_P(ParallelTexts, AreRead) {
  try {
    EXPECT_EQ(to_string(parse_parallelism(GetParam().text)), GetParam().wanted);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find(GetParam().wanted), std::string::npos) << e.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, ParallelTexts,
                         testing::Values(Text{"", "data=*,tensor=1"}, Text{"data=2,tensor=4", "data=2,tensor=4"}, Text{"tensor=2", "data=1,tensor=2"},
                                         Text{"tensor=2,data=*", "data=*,tensor=2"}, Text{"data=2,tensor=*", "data=2,tensor=*"}, Text{"zero=2", "data=*,tensor=1,zero=2"},
                                         Text{"data=4,zero=3", "data=4,tensor=1,zero=3"}, Text{"data=*,tensor=*", "two factors are *"}, Text{"tensr=2", "did you mean 'tensor'"},
                                         Text{"data=2,data=2", "given twice"}, Text{"data=0", "expected 1 to"}, Text{"zero=4", "expected 1 to 3"}, Text{"zero=*", "not a"}, Text{"tensor", "tensor"},
                                         Text{"data=-1", "expected 1 to"}, Text{"data=2.5", "2.5"}, Text{"pipeline=4", "data=1,tensor=1,pipeline=4"},
                                         Text{"data=2,tensor=2,pipeline=*", "data=2,tensor=2,pipeline=*"}, Text{"pipeline=2,zero=1", "data=1,tensor=1,pipeline=2,zero=1"},
                                         Text{"data=*,pipeline=*", "two factors are *"}, Text{"pipelin=2", "did you mean 'pipeline'"}, Text{"pipeline=0", "expected 1 to"}));

template <class F>
void expect_text(const F& read, const char* text, const std::string& wanted) {
  try {
    EXPECT_EQ(read(text), wanted) << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find(wanted), std::string::npos) << e.what();
  }
}
TEST(ParallelTexts, OfSchedulesAreRead) {
  const auto read = [](const char* text) { return to_string(parse_pipeline_schedule(text)); };
  for (const char* same : {"1f1b", "gpipe", "zb-h1", "interleaved=2", "interleaved=16"}) expect_text(read, same, same);
  for (const auto& [text, wanted] : std::vector<std::pair<const char*, const char*>>{{"interleaved", "of 2 to 1024 parts a stage"},
                                                                                    {"interleaved=1", "of 2 to 1024 parts a stage"},
                                                                                    {"interleaved=x", "x"},
                                                                                    {"gpip", "did you mean 'gpipe'"},
                                                                                    {"gpipe=2", "has no number"},
                                                                                    {"", "is none"}})
    expect_text(read, text, wanted);
}
TEST(ParallelTexts, OfStagesAreRead) {
  const auto read = [](const char* text) {
    std::string all;
    for (const std::string& stage : parse_stages(text)) all += stage + "|";
    return all;
  };
  expect_text(read, "a.*;b,c;rest", "a.*|b,c|rest|");
  expect_text(read, "", "");
  expect_text(read, "a;;b", "stage 1 of 'a;;b' names nothing");
  expect_text(read, "a;b,", "names nothing");
  expect_text(read, "a;rest,b", "expected it alone");
  expect_text(read, "rest;rest", "2 stages of 'rest;rest' are the rest");
}

}  // namespace
}  // namespace tandem
