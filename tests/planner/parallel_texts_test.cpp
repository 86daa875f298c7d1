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
                                         Text{"data=-1", "expected 1 to"}, Text{"data=2.5", "2.5"}));

}  // namespace
}  // namespace tandem
