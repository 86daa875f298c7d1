// CSV files as data sets: what columns become, what is assumed and told, and what bad rows are called.
#include <zlib.h>

#include "data/data_file.h"
#include "data/spool.h"
#include "tests/trainer/data_reading.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

const std::string iris =
    "length,width,petal length,petal width,species\n"
    "5,3.5,1.5,0.25,setosa\n"
    "7.0,3,4.75,1.5,versicolor\n"
    "6.25,3,6,2.5,\"virginica\"\n"
    "4.75,3,1.5,0.25,setosa\n";

TEST(Csv, TakesTheLastColumnForLabelsAndSaysSo) {
  const TemporaryFolder folder;
  const Splits data = open_data("csv:" + folder.write("iris.csv", iris), four_numbers());
  ASSERT_TRUE(data.train);
  EXPECT_EQ(shown(*data.train), "label y int64[]: 0, 2, 1, 0; x float32[4]: 4.75 3 1.5 0.25, 6.25 3 6 2.5, 7 3 4.75 1.5, 5 3.5 1.5 0.25");
  EXPECT_EQ(data.train->classes(0), (std::vector<std::string>{"setosa", "versicolor", "virginica"}));
  EXPECT_EQ(class_names(*data.train).size(), 3u);
  const std::string notes = notes_of(*data.train);
  EXPECT_NE(notes.find("labels the last column 'species', input the other 4 columns (csv:FILE,x=...,y=... names others)"),
            std::string::npos)
      << notes;
  EXPECT_NE(notes.find("3 classes: setosa=0, versicolor=1, virginica=2"), std::string::npos) << notes;
  EXPECT_EQ(data.train->describe(2), (folder / "iris.csv").string() + ": line 4");
}

struct CsvRow {
  const char* name;
  std::string text, options;
  DataRequest request;
  std::string shown;
};
void PrintTo(const CsvRow& row, std::ostream* out) {
  *out << row.name;
}
class CsvFiles : public testing::TestWithParam<CsvRow> {};
TEST_P(CsvFiles, HoldTheirColumns) {
  const CsvRow& row = GetParam();
  const TemporaryFolder folder;
  EXPECT_EQ(shown(*open_data("csv:" + folder.write("a.csv", row.text) + row.options, row.request).train), row.shown);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, CsvFiles,
    testing::Values(
        CsvRow{"named columns in their order", "a,b,c\n1,2,3\n4,5,6\n", ",x=c,a,y=b", {}, "x float32[2]: 6 4, 3 1; label y int64[]: 5, 2"},
        CsvRow{"amounts stay amounts", "a,z\n1,0.5\n2,3\n", "", {}, "label y float32[]: 3, 0.5; x float32[]: 2, 1"},
        CsvRow{"whole amounts for a model that takes floats", "a,q,target\n1,2,5\n", ",a=a,q,n=q", two_inputs(),
               "a float32[2]: 1 2; n int64[]: 2; label y float32[1]: 5"},
        CsvRow{"a column called Label", "Label,a,b\n1,8,9\n", "", {}, "label y int64[]: 1; x float32[2]: 8 9"},
        CsvRow{"several labels of one output", "a,b,c\n1,2,3\n", ",x=a,y=b,c", {}, "x float32[]: 1; label y int64[2]: 2 3"},
        CsvRow{"several outputs' labels",
               "a,b,c\n1,2,3\n",
               ",x=a,y.out1=c,y.out2=b",
               {},
               "x float32[]: 1; label out1 int64[]: 3; label out2 int64[]: 2"},
        CsvRow{"weights",
               "a,y,sample_weight\n1,0,0.5\n2,1,2\n",
               "",
               {},
               "weight sample_weight float32[]: 2, 0.5; label y int64[]: 1, 0; x float32[]: 2, 1"},
        CsvRow{
            "weights by name", "a,w,y\n1,3,0\n", ",weight=w", {}, "weight sample_weight float32[]: 3; label y int64[]: 0; x float32[]: 1"},
        CsvRow{"as many columns as the model takes", "a,b,c,d\n1,2,3,4\n", "", four_numbers(), "x float32[4]: 1 2 3 4"},
        CsvRow{"CRLF, a mark and spaces",
               "\xef\xbb\xbf"
               "a, b ,y\r\n 1,+2 ,0\r\n\r\n3,4,1\r\n",
               "",
               {},
               "label y int64[]: 1, 0; x float32[2]: 3 4, 1 2"},
        CsvRow{"true and false", "a,y\nTrue,yes\nfalse,no\n", "", {}, "label y int64[]: 0, 1; x float32[]: 0, 1"},
        CsvRow{"semicolons", "a;b;y\n1.5;2;0\n", "", {}, "label y int64[]: 0; x float32[2]: 1.5 2"},
        CsvRow{"tabs", "a\tb\ty\n1\t2\t0\n", "", {}, "label y int64[]: 0; x float32[2]: 1 2"},
        CsvRow{"another separator", "a:b:y\n1:2:0\n", ",sep=:", {}, "label y int64[]: 0; x float32[2]: 1 2"},
        CsvRow{"quotes with commas and lines in them",
               "\"a,1\",y\n\"5\",\"x, \"\"1\"\"\nz\"\n6,b\n",
               "",
               {},
               "label y int64[]: 0, 1; x float32[]: 6, 5"},
        CsvRow{"no end of the last line", "a,y\n1,0\n2,1", "", {}, "label y int64[]: 1, 0; x float32[]: 2, 1"},
        CsvRow{"means", "a,b,y\n1,,0\nNA,4,1\n3,8,1\n", ",missing=mean", {}, "label y int64[]: 1, 1, 0; x float32[2]: 3 8, 2 4, 1 6"},
        CsvRow{"a number for what is missing", "a,y\n,0\n2,1\n", ",missing=-1", {}, "label y int64[]: 1, 0; x float32[]: 2, -1"},
        CsvRow{"rows without values left out", "a,y\n,0\n2,1\n3,\n", ",missing=drop", {}, "label y int64[]: 1; x float32[]: 2"},
        CsvRow{"classes as the model has them",
               "a,y\n1,dog\n2,bee\n",
               "",
               {.class_names = {"dog", "ant", "bee"}, .training = false},
               "label y int64[]: 2, 0; x float32[]: 2, 1"},
        CsvRow{"other classes are numbered anew in training",
               "a,y\n1,dog\n2,cow\n",
               "",
               {.class_names = {"dog", "ant"}},
               "label y int64[]: 0, 1; x float32[]: 2, 1"}));

struct BadCsv {
  const char* name;
  std::string text, options;
  DataRequest request;
  ExitCode code;
  const char* message;
};
void PrintTo(const BadCsv& row, std::ostream* out) {
  *out << row.name;
}
class BadCsvFiles : public testing::TestWithParam<BadCsv> {};
TEST_P(BadCsvFiles, AreNamedByLineAndColumn) {
  const BadCsv& row = GetParam();
  const TemporaryFolder folder;
  const std::string path = folder.write("a.csv", row.text);
  expect_error(row.code, row.message, [&] { open_data("csv:" + path + row.options, row.request); });
}
INSTANTIATE_TEST_SUITE_P(
    Rows, BadCsvFiles,
    testing::Values(BadCsv{"ragged", "a,b,y\n1,2,0\n1,2\n", "", {}, ExitCode::data, "a.csv: line 3 has 2 fields, the header has 3"},
                    BadCsv{"ragged behind a quoted line",
                           "a,y\n1,\"x\ny\"\n1,2,3\n",
                           "",
                           {},
                           ExitCode::data,
                           "a.csv: line 4 has 3 fields, the header has 2"},
                    BadCsv{"text for a number",
                           "a,b,y\n1,Paris,0\n",
                           "",
                           {},
                           ExitCode::data,
                           "a.csv: line 2, column 'b': 'Paris' is no number: leave the column out (x=...)"},
                    BadCsv{"missing",
                           "a,y\n1,0\nnull,1\n,1\n",
                           "",
                           {},
                           ExitCode::data,
                           "a.csv: line 3, column 'a': no value (2 of them in all); missing=mean"},
                    BadCsv{"missing labels",
                           "a,y\n1,0\n2,\n",
                           ",missing=mean",
                           {},
                           ExitCode::data,
                           "line 3, column 'y': no value (1 of them in all); missing=drop"},
                    BadCsv{"a fraction for an index", "n,a,q,target\n1,1,1,1\n1.5,1,1,1\n", ",a=a,q", two_inputs(), ExitCode::data,
                           "line 3, column 'n': 1.5 is no whole number, as the model's input 'n' takes"},
                    BadCsv{"an open quote", "a,y\n1,\"x\n", "", {}, ExitCode::data, "line 2: a quote does not end before the file does"},
                    BadCsv{"no header", "1,2\n3,4\n", "", {}, ExitCode::data, "line 1 holds numbers, expected a header"},
                    BadCsv{"two of a name", "a,a\n3,4\n", "", {}, ExitCode::data, "line 1: two columns are called 'a'"},
                    BadCsv{"empty", "", "", {}, ExitCode::data, "a.csv: empty, expected a header"},
                    BadCsv{"no rows", "a,y\n", "", {}, ExitCode::data, "holds no"},
                    BadCsv{"a misspelt column", "age,y\n1,2\n", ",x=aeg", {}, ExitCode::usage, "no column 'aeg', did you mean 'age'?"},
                    BadCsv{
                        "a misspelt option", "age,y\n1,2\n", ",tset=b", {}, ExitCode::usage, "has no option 'tset', did you mean 'test'?"},
                    BadCsv{"two that could be labels",
                           "label,target,a\n1,2,3\n",
                           "",
                           {},
                           ExitCode::data,
                           "'label' and 'target' could both be the labels: y=COLUMN says which"},
                    BadCsv{"an input without a column", "b,c,target\n1,2,3\n", "", two_inputs(), ExitCode::data,
                           "no column for the model's input 'a' float32[2]: name them by a=COLUMN"},
                    BadCsv{"a class the model has not",
                           "a,y\n1,cow\n",
                           "",
                           {.class_names = {"ant", "dog"}, .training = false},
                           ExitCode::data,
                           "class 'cow' is not among those trained on: ant=0, dog=1"},
                    BadCsv{"what missing is",
                           "a,y\n1,2\n",
                           ",missing=median",
                           {},
                           ExitCode::usage,
                           "missing (mean, drop or a number): 'median' is not a number"}));

TEST(Csv, PartsShareNamesAndMeans) {
  const TemporaryFolder folder;
  const std::string train = folder.write("train.csv", "a,y\n1,cat\n3,dog\n5,ant\n"), test = folder.write("test.csv", "a,y\nNA,dog\n");
  for (const std::vector<std::string>& parts : {std::vector<std::string>{}, {"test", "train"}}) {
    DataRequest request;
    request.parts = parts;
    const Splits data = open_data("csv:" + train + ",test=" + test + ",missing=mean", request);
    EXPECT_EQ(shown(*data.test), "label y int64[]: 2; x float32[]: 3");
  }
  const std::string other = folder.write("other.csv", "a,y\n1,cow\n");
  expect_error(ExitCode::data, "other.csv, column 'y': class 'cow' is not among those trained on",
               [&] { open_data("csv:" + train + ",test=" + other); });
  const std::string columns = folder.write("columns.csv", "b,y\n1,cat\n");
  expect_error(ExitCode::data, "columns.csv: its columns are not those of", [&] { open_data("csv:" + train + ",val=" + columns); });
}

std::string gzipped(const std::string& text, const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

TEST(Csv, ShardsAreReadInTheirOrderAlsoCompressed) {
  const TemporaryFolder folder;
  folder.write("d-00.csv", "a,y\n1,0\n2,1\n");
  gzipped("a,y\n3,1\n", (folder / "d-01.csv").string());
  for (const char* pattern : {"d-*.csv", "d-{00..01}.csv", "d-{00,01}.csv", "d-0?.csv"}) {
    const Splits data = open_data("csv:" + (folder / pattern).string());
    EXPECT_EQ(shown(*data.train), "label y int64[]: 1, 1, 0; x float32[]: 3, 2, 1") << pattern;
    EXPECT_EQ(data.train->describe(2), (folder / "d-01.csv").string() + ": line 2");
  }
  expect_error(ExitCode::io, "e-*.csv: no file fits this pattern", [&] { open_data("csv:" + (folder / "e-*.csv").string()); });
  expect_error(ExitCode::io, "d-02.csv: cannot be read", [&] { open_data("csv:" + (folder / "d-{00..02}.csv").string()); });
  folder.write("d-02.csv", "a,z\n3,1\n");
  expect_error(ExitCode::data, "d-02.csv: its columns are not those of", [&] { open_data("csv:" + (folder / "d-*.csv").string()); });
  const std::string whole = gzipped(iris, (folder / "iris.csv.gz").string());
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) - 9);
  expect_error(ExitCode::data, "iris.csv.gz: the gzip data is damaged", [&] { open_data("csv:" + whole); });
}

TEST(Spool, KeepsInAFileWhatIsBeyondItsLimit) {
  for (const std::size_t limit : {std::size_t{0}, std::size_t{1000}, std::size_t{1} << 20}) {
    Spool spool("numbers", limit);
    for (std::uint32_t i = 0; i < 10'000; ++i) spool.append(std::as_bytes(std::span(&i, 1)));
    spool.finish();
    ASSERT_EQ(spool.size(), 40'000u);
    for (const std::uint32_t i : {0u, 249u, 9'999u, 250u, 5'000u}) {
      std::uint32_t got = 0;
      spool.read(4 * i, 4, reinterpret_cast<std::byte*>(&got));
      EXPECT_EQ(got, i);
    }
  }
}

}  // namespace
}  // namespace tandem
