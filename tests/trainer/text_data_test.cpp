// Texts as windows of tokens, and JSON lines: what they hold, and what bad ones are called.
#include "tests/trainer/data_reading.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

DataRequest tokens(std::int64_t window, std::int64_t range, bool each = true) {
  return {.inputs = {{.name = "ids", .sample = {DType::int64, {window}}, .indices = {0, range, {}}}},
          .label = {DType::int64, each ? Shape{window} : Shape{}},
          .classes = range};
}

struct TextRow {
  const char* name;
  std::string text, options;
  DataRequest request;
  std::string shown;
};
void PrintTo(const TextRow& row, std::ostream* out) {
  *out << row.name;
}
class Texts : public testing::TestWithParam<TextRow> {};
TEST_P(Texts, AreWindowsAndWhatFollows) {
  const TextRow& row = GetParam();
  const TemporaryFolder folder;
  EXPECT_EQ(shown(*open_data("text:" + folder.write("a.txt", row.text) + row.options, row.request).train), row.shown);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Texts,
    testing::Values(
        TextRow{"bytes", "abcdefg", "", tokens(3, 256), "ids int64[3]: 100 101 102, 97 98 99; label y int64[3]: 101 102 103, 98 99 100"},
        TextRow{"of which the last has no successor", "abcdef", "", tokens(3, 256), "ids int64[3]: 97 98 99; label y int64[3]: 98 99 100"},
        TextRow{"characters where the model takes few", "hello", "", tokens(2, 5), "ids int64[2]: 2 2, 1 0; label y int64[2]: 2 3, 0 2"},
        TextRow{"of several bytes",
                "\xc3\xa4"
                "b\xe2\x82\xac"
                "b",
                ",unit=chars", tokens(3, 300), "ids int64[3]: 1 0 2; label y int64[3]: 0 2 0"},
        TextRow{"a stride",
                "abcdef",
                ",stride=1,window=4",
                {},
                "x int64[4]: 98 99 100 101, 97 98 99 100; label y int64[4]: 99 100 101 102, 98 99 100 101"},
        TextRow{"the next alone", "abcdefg", "", tokens(3, 256, false), "ids int64[3]: 100 101 102, 97 98 99; label y int64[]: 103, 100"},
        TextRow{"the model's characters",
                "abba",
                "",
                {.inputs = tokens(2, 9).inputs, .class_names = {"b", "z", "a"}},
                "ids int64[2]: 2 0; label y int64[2]: 0 0"}));

TEST(Texts, PartsAreTheirLastShareOrFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.txt", "abcdefghijklmnopqrst"), other = folder.write("b.txt", "cba");
  const Splits data = open_data("text:" + path + ",unit=chars,val=0.25,test=" + other, tokens(2, 20));
  EXPECT_EQ(data.train->size(), 7);
  EXPECT_EQ(shown(*data.validation), "ids int64[2]: 17 18, 15 16; label y int64[2]: 18 19, 16 17");
  EXPECT_EQ(shown(*data.test), "ids int64[2]: 2 1; label y int64[2]: 1 0");
  EXPECT_EQ(data.validation->describe(1), path + ": characters 17 to 18");
  EXPECT_EQ(data.train->classes(1).size(), 20u);
  EXPECT_NE(notes_of(*data.train).find("20 different characters: abcdefghijklmnopqrst"), std::string::npos);
  folder.write("c0.txt", "abc");
  folder.write("c1.txt", "xyz");
  EXPECT_EQ(shown(*open_data("text:" + (folder / "c*.txt").string() + ",unit=bytes", tokens(2, 256)).train),
            "ids int64[2]: 120 121, 97 98; label y int64[2]: 121 122, 98 99");
}

TEST(Texts, WithMaskAndPositions) {
  DataRequest request = tokens(2, 256);
  request.inputs.push_back({.name = "attention_mask", .sample = {DType::int64, {2}}});
  request.inputs.push_back({.name = "position_ids", .sample = {DType::int64, {2}}});
  const TemporaryFolder folder;
  const std::string path = folder.write("a.txt", "abc");
  EXPECT_EQ(shown(*open_data("text:" + path, request).train),
            "ids int64[2]: 97 98; label y int64[2]: 98 99; attention_mask int64[2]: 1 1; position_ids int64[2]: 0 1");
  request.inputs.push_back({.name = "image", .sample = {DType::float32, {2}}});
  expect_error(ExitCode::data, "has nothing for the model's input 'image' float32[2]", [&] { open_data("text:" + path, request); });
}

struct BadText {
  const char* name;
  std::string text, options;
  DataRequest request;
  ExitCode code;
  const char* message;
};
void PrintTo(const BadText& row, std::ostream* out) {
  *out << row.name;
}
class BadTexts : public testing::TestWithParam<BadText> {};
TEST_P(BadTexts, AreNamedByByte) {
  const BadText& row = GetParam();
  const TemporaryFolder folder;
  const std::string path = folder.write("a.txt", row.text);
  expect_error(row.code, row.message, [&] { open_data("text:" + path + row.options, row.request); });
}
INSTANTIATE_TEST_SUITE_P(
    Rows, BadTexts,
    testing::Values(
        BadText{"a byte beyond the model's", "ab\xff", ",unit=bytes", tokens(1, 128), ExitCode::data,
                "a.txt: byte 2: token 255 ('\xff'), the model takes 128 (0 to 127)"},
        BadText{"more characters than the model's", "abcab", "", tokens(1, 2), ExitCode::data,
                "a.txt: byte 2: token 2 ('c'), the model takes 2 (0 to 1); there are 3 different characters"},
        BadText{"a character that was not trained on",
                "abc",
                "",
                {.inputs = tokens(1, 9).inputs, .class_names = {"a", "b"}, .training = false},
                ExitCode::data,
                "byte 2: the character 'c' is not among the 2"},
        BadText{"no UTF-8",
                "ab\xe2\x82z",
                ",unit=chars,window=1",
                {},
                ExitCode::data,
                "byte 2 begins no character of UTF-8; unit=bytes reads any file"},
        BadText{"too short", "abc", "", tokens(3, 256), ExitCode::data, "a.txt: 3 bytes are no window of 3 and the one that follows"},
        BadText{"empty", "", "", tokens(3, 256), ExitCode::data, "0 bytes are no window"},
        BadText{"no window", "abc", "", {}, ExitCode::usage, "window=0: expected window=T"},
        BadText{"another window than the model's", "abc", ",window=2", tokens(3, 256), ExitCode::usage,
                "window=2, the model's input 'ids' takes 3 tokens"},
        BadText{"an unknown unit", "abc", ",unit=words", tokens(1, 256), ExitCode::usage, "unit=words, expected bytes or chars"},
        BadText{"a share of all", "abc", ",val=1", tokens(1, 256), ExitCode::usage, "val=1, expected a share between 0 and 1, or a file"}));

TEST(JsonLines, MembersAreColumns) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl",
                                        "{\"x\": [[1, 2], [3, 4.5]], \"meta\": {\"label\": \"cat\", \"id\": 7}, \"ok\": true}\n\n{\"ok\": "
                                        "false, \"meta\": {\"label\": \"ant\"}, \"x\": [5, 6, 7, 8]}");
  const Splits data = open_data("jsonl:" + path + ",y=meta.label", four_numbers());
  EXPECT_EQ(shown(*data.train), "label y int64[]: 0, 1; x float32[4]: 5 6 7 8, 1 2 3 4.5");
  EXPECT_EQ(data.train->describe(1), path + ": line 3");
  EXPECT_NE(notes_of(*data.train).find("not used: 'meta.id', 'ok'"), std::string::npos) << notes_of(*data.train);
  EXPECT_EQ(shown(*open_data("jsonl:" + path + ",y=ok,x=x").train), "x float32[4]: 5 6 7 8, 1 2 3 4.5; label y int64[]: 0, 1");
  expect_error(ExitCode::data, "line 3, column 'meta.id': no value (1 of them in all)",
               [&] { open_data("jsonl:" + path + ",x=meta.id,y=ok"); });
}

TEST(JsonLines, BadOnesAreNamedByLine) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> rows[] = {
      {"{\"x\": 1, \"y\": 0}\n{\"x\": 1,", "a.jsonl: line 2: "},
      {"{\"x\": 1, \"y\": 0}\n[1]", "a.jsonl: line 2: no object"},
      {"", "a.jsonl: empty"},
      {"{\"x\": [1, 2], \"y\": 0}\n{\"x\": [1], \"y\": 0}", "line 2, column 'x': a list of 1 numbers, those before have 2"},
      {"{\"x\": [1, \"a\"], \"y\": 0}", "line 1, column 'x': a list with \"a\", which is no number"},
      {"{\"x\": 1, \"y\": 0}\n{\"x\": \"a\", \"y\": 0}", "line 2, column 'x': 'a' is no number"},
      {"{\"x\": 1, \"y\": \"a\"}\n{\"x\": 1, \"y\": 0}", "line 2, column 'y': a number among texts"}};
  for (const auto& [text, message] : rows) {
    const std::string path = folder.write("a.jsonl", text);
    expect_error(ExitCode::data, message, [&] { open_data("jsonl:" + path); });
  }
}

}  // namespace
}  // namespace tandem
