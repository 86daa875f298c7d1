// Files that Python's writers make of every format hold here what they hold there; and Parquet files that are damaged.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "base/file.h"
#include "data/data_file.h"
#include "tests/trainer/data_reading.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

constexpr int packages_missing = 3;

// Empty where the files are there, else why not.
std::string write_files(const TemporaryFolder& folder) {
  const char* python = std::getenv("TANDEM_PYTHON");
  if (!python) return "TANDEM_PYTHON does not name a Python with numpy and pyarrow (./run-tests makes one)";
  const std::string log = (folder / "log").string();
  const int status =
      std::system(concat(python, ' ', TANDEM_SOURCE_DIR, "/tests/trainer/formats_oracle.py ", folder.text(), " >", log, " 2>&1").c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == packages_missing) return concat("TANDEM_PYTHON: ", read_file(log));
  EXPECT_EQ(status, 0) << read_file(log);
  return "";
}

TEST(FormatsOracle, FilesHoldWhatTheirWritersPut) {
  const TemporaryFolder folder;
  if (const std::string why = write_files(folder); !why.empty()) GTEST_SKIP() << why;
  std::ifstream rows(folder / "expected.tsv");
  int count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const std::string spec = line.substr(0, line.find('\t')), wanted = line.substr(line.find('\t') + 1);
    SCOPED_TRACE(spec);
    try {
      const std::string got = shown(*open_data(spec).train);
      const auto at = static_cast<std::size_t>(std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end()).first - got.begin());
      EXPECT_TRUE(got == wanted) << "at " << at << ": " << got.substr(at > 20 ? at - 20 : 0, 80)
                                 << "\nwanted: " << wanted.substr(at > 20 ? at - 20 : 0, 80);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GT(count, 25);

  // Damage of any byte, and any cut, is an error or is not seen; it never crashes, and no error is of another kind.
  std::mt19937 random(3);
  for (const char* name : {"plain.parquet", "v2.parquet", "delta.parquet", "delta2.parquet", "gzip.parquet"}) {
    const std::string good = read_file(folder / name);
    for (int i = 0; i < 120; ++i) {
      std::string bad = good;
      // Headers of pages and the footer are where sizes stand: half of the damage goes there.
      const std::size_t footer = bad.size() - std::min<std::size_t>(bad.size(), 3000);
      for (int k = 0; k < 4; ++k)
        bad[i % 2 ? footer + random() % (bad.size() - footer) : random() % bad.size()] = static_cast<char>(random());
      if (i % 10 == 0) bad.resize(random() % bad.size());
      const std::string path = folder.write("bad.parquet", bad);
      try {
        open_data("parquet:" + path + ",x=f4,i4,i8,l,ll,id,y=name");
      } catch (const Error& e) {
        EXPECT_TRUE(e.code() == ExitCode::data || e.code() == ExitCode::usage) << e.what();  // usage: a column's name was hit
      }
    }
  }
  const std::string good = read_file(folder / "none.parquet");
  const std::pair<std::string, const char*> damaged[] = {{good.substr(0, good.size() - 1), "truncated: no PAR1 at its end"},
                                                         {good.substr(4), "no Parquet file (PAR1 at its start)"}};
  for (const auto& [bytes, message] : damaged) {
    const std::string path = folder.write("bad.parquet", bytes);
    expect_error(ExitCode::data, message, [&] { open_data("parquet:" + path); });
  }
  expect_error(ExitCode::data, "column 'id': 'row 00000' is no number",
               [&] { open_data(concat("parquet:", (folder / "plain.parquet").string(), ",x=id,y=name")); });
  expect_error(ExitCode::data, "row 1, column 'holes': no value (400 of them in all)",
               [&] { open_data(concat("parquet:", (folder / "plain.parquet").string(), ",x=holes,y=name")); });
}

TEST(Parquet, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  const std::pair<std::string, const char*> rows[] = {
      {"", "no Parquet file (PAR1 at its start)"},
      {std::string("PAR1\x19\1\0\0\0PAR1", 13), "its footer is damaged"},
      {std::string("PAR1\xff\xff\xff\x7fPAR1", 12), "a footer of 2147483647 bytes in a file of 12"},
      {std::string("PAR1\0\1\0\0\0PAR1", 13), "it has no columns"},
      {std::string("PAR1....\4\0\0\0PARE", 16), "its footer is encrypted"}};
  for (const auto& [bytes, message] : rows) {
    const std::string path = folder.write("a.parquet", bytes);
    expect_error(ExitCode::data, message, [&] { open_data("parquet:" + path); });
  }
}

}  // namespace
}  // namespace tandem
