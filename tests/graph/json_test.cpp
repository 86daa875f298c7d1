#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

TEST(JsonText, IsReadBackAsItWasWritten) {
  for (const char* text : {R"({"b":[1,-2.5,true,null,"x\n\"\u0001é"],"a":{},"c":[]})", R"("\u007f\u009b")", "1e-05", "9007199254740993",
                           "-9223372036854775808", "0.1", "-0.0", "1e+300"})
    EXPECT_EQ(Json::parse(text).dump(), text);
  const std::string lines = "{\n  \"a\": [\n    1\n  ]\n}";
  EXPECT_EQ(Json::parse(lines).dump(2), lines);
}

TEST(JsonText, SaysWhatJsonCannot) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(INFINITY).dump(), "null");
  EXPECT_EQ(Json(3.0).dump(), "3");
  EXPECT_EQ(Json("n\x1b\xff\xc2\x9b\x7f").dump(), "\"n\\u001b\\\\xff\\u009b\\u007f\"");
  // Hidden characters are escaped, and read back as they were.
  const std::string hidden = "\u202e\u2028\u200b\ufeff\u00ad\U000e0041 größe";
  EXPECT_EQ(Json(hidden).dump(), "\"\\u202e\\u2028\\u200b\\ufeff\\u00ad\\udb40\\udc41 größe\"");
  EXPECT_EQ(Json::parse(Json(hidden).dump()).text(), hidden);
  EXPECT_EQ(Json(Json::Object{{"\xff", 1}, {"\xfe", 2}}).dump(), R"({"\\xff":1,"\\xfe":2})");
  EXPECT_EQ(Json(std::vector<std::string>{"a", "b"}).dump(), R"(["a","b"])");
}

TEST(JsonText, EscapesAndLargeNumbersAreUnderstood) {
  EXPECT_EQ(Json::parse(R"("\u00e9\ud83d\ude00\/")").text(), "é😀/");
  EXPECT_EQ(Json::parse("18446744073709551616").number(), 0x1p64);
  EXPECT_THROW(Json::parse("9223372036854775808").integer(), Error);
  EXPECT_THROW(Json::parse("1.5").integer(), Error);
  EXPECT_THROW(Json::parse("true").number(), Error);
}

struct BadText {
  std::string text, message;
};
void PrintTo(const BadText& row, std::ostream* out) {
  *out << row.text.substr(0, 40);
}
class BadJson : public testing::TestWithParam<BadText> {};
TEST_P(BadJson, IsAnErrorThatSaysWhere) {
  try {
    Json::parse(GetParam().text);
    FAIL() << "it was read";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find(GetParam().message), std::string::npos) << e.what();
    EXPECT_LT(std::string(e.what()).size(), 300U);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Rows, BadJson,
    testing::Values(BadText{"", "JSON, byte 0: "}, BadText{"{", "JSON, byte 1: "}, BadText{"[1,", "JSON, byte 3: "},
                    BadText{R"({"a" 1})", "expected ':'"}, BadText{"tru", "JSON, byte 3: "}, BadText{"\"a", "missing closing quote"},
                    BadText{"1 2", "expected end of input"}, BadText{R"("\x")", "forbidden character after backslash"},
                    BadText{"{1: 2}", "JSON, byte 1: "}, BadText{"[1 2]", "expected ']'"}, BadText{"nan", "invalid literal"},
                    BadText{"1e999", "number overflow parsing '1e999'"}, BadText{R"({"a":{"b":1,"c":1,"b":2}})", "member 'b' is there twice"},
                    BadText{"\"\xff\"", "ill-formed UTF-8"}, BadText{R"("\ud800")", "must be followed by"},
                    BadText{std::string(100000, '['), "nested too deeply"}, BadText{"\"" + std::string(100000, 'x'), "byte 100001"}));

}  // namespace
}  // namespace tandem
