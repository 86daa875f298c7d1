// Arrays by name in .npz archives and in .npy files of their own: which becomes which field, and what does not fit.
#include "data/npy.h"
#include "data/zip.h"
#include "tests/trainer/data_reading.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

// An array of so many samples: 0, 1, 2, ... times `factor`.
struct ArrayRow {
  const char* name;
  Shape shape;
  bool floats = true;
  int factor = 1;
};

Tensor tensor_of(const ArrayRow& row) {
  Tensor t(TensorType{row.floats ? DType::float32 : DType::int64, row.shape});
  int i = 0;
  visit_number(t.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::int64_t>)
      for (T& v : t.write<T>()) v = static_cast<T>(i++ * row.factor);
  });
  return t;
}
std::string npz_of(const std::vector<ArrayRow>& rows) {
  std::string bytes;
  ZipWriter zip([&](std::string_view part) { bytes += part; });
  for (const ArrayRow& row : rows) zip.add(concat(row.name, ".npy"), npy_of(tensor_of(row)));
  zip.finish();
  return bytes;
}

const DataRequest x_and_adj{.inputs = {{.name = "x", .sample = {DType::float32, {2}}}, {.name = "adj", .sample = {DType::float32, {}}}}};

struct NpzRow {
  const char* name;
  std::vector<ArrayRow> arrays;
  std::string options;
  DataRequest request;
  std::string shown, notes;
};
void PrintTo(const NpzRow& row, std::ostream* out) {
  *out << row.name;
}
class NpzFiles : public testing::TestWithParam<NpzRow> {};
TEST_P(NpzFiles, HoldTheirArrays) {
  const NpzRow& row = GetParam();
  const TemporaryFolder folder;
  const Splits data = open_data("npz:" + folder.write("a.npz", npz_of(row.arrays)) + row.options, row.request);
  EXPECT_EQ(shown(*data.train), row.shown);
  const std::string notes = notes_of(*data.train);
  EXPECT_TRUE(row.notes.empty() ? notes.empty() : notes.find(row.notes) != std::string::npos) << notes;
}
INSTANTIATE_TEST_SUITE_P(Rows, NpzFiles,
                         testing::Values(NpzRow{"by the inputs' names",
                                                {{"x", {2, 2}}, {"adj", {2}}, {"y", {2}, false}},
                                                "",
                                                x_and_adj,
                                                "x float32[2]: 2 3, 0 1; adj float32[]: 1, 0; label y int64[]: 1, 0",
                                                ""},
                                         NpzRow{"x beside another's name",
                                                {{"x", {2, 2}}, {"adj", {2}}},
                                                "",
                                                {.inputs = {{.name = "features"}, {.name = "adj"}}},
                                                "adj float32[]: 1, 0; features float32[2]: 2 3, 0 1",
                                                ""},
                                         NpzRow{"the one that is left",
                                                {{"x", {2, 2}}, {"graph", {2}}},
                                                "",
                                                x_and_adj,
                                                "x float32[2]: 2 3, 0 1; adj float32[]: 1, 0",
                                                "the model's input 'adj' takes the array 'graph' (adj=ARRAY names another)"},
                                         NpzRow{
                                             "named by options",
                                             {{"a", {1, 2}}, {"b", {1}}, {"c", {1}, false}, {"d", {1}}},
                                             ",x=a,adj=b,y=c,weight=d",
                                             x_and_adj,
                                             "x float32[2]: 0 1; adj float32[]: 0; label y int64[]: 0; weight sample_weight float32[]: 0",
                                             ""},
                                         NpzRow{"several labels",
                                                {{"x", {1}}, {"y_class", {1}, false}, {"y_box", {1, 4}}},
                                                "",
                                                {},
                                                "x float32[]: 0; label box float32[4]: 0 1 2 3; label class int64[]: 0",
                                                ""},
                                         NpzRow{"weights",
                                                {{"x", {2}}, {"y", {2}}, {"sample_weight", {2}, false, 3}},
                                                "",
                                                {},
                                                "x float32[]: 1, 0; label y float32[]: 1, 0; weight sample_weight float32[]: 3, 0",
                                                ""},
                                         NpzRow{"arrays that are not used",
                                                {{"x", {1}}, {"ids", {1}}, {"y", {1}}},
                                                "",
                                                {},
                                                "x float32[]: 0; label y float32[]: 0",
                                                "not used: ids"}));

TEST(Npz, InputsWithoutArraysAreNamed) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::vector<ArrayRow>& arrays, const std::string& options, const char* message) {
    const std::string path = folder.write("a.npz", npz_of(arrays));
    expect_error(ExitCode::data, message, [&] { open_data("npz:" + path + options, x_and_adj); });
  };
  refuse({{"x", {2, 2}}, {"y", {2}}}, "", "no array adj for the model's input 'adj' float32[]: adj=ARRAY names another; not used are none");
  refuse({{"x", {2, 2}}, {"p", {2}}, {"q", {2}}}, "", "adj=ARRAY names another; not used are p, q");
  refuse({{"x", {2, 2}}, {"adj", {3}}}, "", "'adj' has 3 samples, 'x' has 2");
  refuse({{"x", {2}}, {"adj", {2}}, {"class_weight", {3}}}, "", "holds class_weight, which is no array of samples");
  const std::string path = folder.write("a.npz", npz_of({{"x", {2}}, {"adj", {2}}}));
  expect_error(ExitCode::usage, "no array 'labls'", [&] { open_data("npz:" + path + ",y=labls", x_and_adj); });
}

TEST(Npz, ShardsAndFilesOfParts) {
  const TemporaryFolder folder;
  folder.write("a-0.npz", npz_of({{"x", {2, 2}}, {"y", {2}, false}}));
  folder.write("a-1.npz", npz_of({{"x", {1, 2}, true, 7}, {"y", {1}, false}}));
  const std::string test = folder.write("t.npz", npz_of({{"x", {1, 2}}, {"y", {1}, false}}));
  const Splits data = open_data("npz:" + (folder / "a-*.npz").string() + ",test=" + test);
  EXPECT_EQ(shown(*data.train), "x float32[2]: 0 7, 2 3, 0 1; label y int64[]: 0, 1, 0");
  EXPECT_EQ(shown(*data.test), "x float32[2]: 0 1; label y int64[]: 0");
  folder.write("a-2.npz", npz_of({{"x", {1, 3}}, {"y", {1}, false}}));
  expect_error(ExitCode::data, "x is float32[1,3] in one file and float32[2,2] in the first",
               [&] { open_data("npz:" + (folder / "a-*.npz").string()); });
}

TEST(NpyFiles, AreReadWhereTheyStand) {
  const TemporaryFolder folder;
  const auto array = [&](const std::string& file, const ArrayRow& row) { return folder.write(file, npy_of(tensor_of(row))); };
  const std::string x0 = array("x-0.npy", {"", {2, 2}}), y = array("y.npy", {"", {3}, false}), w = array("w.npy", {"", {3}});
  array("x-1.npy", {"", {1, 2}, true, 5});
  const std::string both = concat("npy:", (folder / "x-*.npy").string(), ',', y);
  EXPECT_EQ(shown(*open_data(both + ",weight=" + w).train),
            "x float32[2]: 0 5, 2 3, 0 1; weight sample_weight float32[]: 2, 1, 0; label y int64[]: 2, 1, 0");
  EXPECT_EQ(shown(*open_data(both + ",adj=" + w, x_and_adj).train),
            "x float32[2]: 0 5, 2 3, 0 1; adj float32[]: 2, 1, 0; label y int64[]: 2, 1, 0");
  EXPECT_EQ(shown(*open_data("npy:" + x0 + ",test=" + x0).test), "x float32[2]: 2 3, 0 1");
  expect_error(ExitCode::data, "y.npy has 3 samples, 'x' has 2", [&] { open_data("npy:" + x0 + "," + y); });
  expect_error(ExitCode::usage, "expected npy:INPUTS.npy,LABELS.npy", [&] { open_data("npy:a,b,c"); });
  array("x-2.npy", {"", {1, 3}});
  expect_error(ExitCode::data, "x-2.npy: float32[1,3], the first of its shards is float32[2,2]", [&] { open_data(both); });
}

// 64 GiB of zeros that take no room on the disk: only what is read comes into memory.
TEST(NpyFiles, MayBeLargerThanMemory) {
  const TemporaryFolder folder;
  std::string header = npy_of(Tensor::of<float>({1, 1024}, std::vector<float>(1024)));
  header.resize(header.size() - 4096);
  const std::string from = "(1, 1024), }", to = "(16777216, 1024), }";
  header.replace(header.find(from), from.size(), to);
  header.erase(header.size() - 1 - (to.size() - from.size()), to.size() - from.size());
  const std::string path = folder.write("x.npy", header);
  std::error_code error;
  std::filesystem::resize_file(path, header.size() + (std::uintmax_t{64} << 30), error);
  if (error) GTEST_SKIP() << "no sparse file of 64 GiB can be made: " << error.message();
  const auto resident = [] {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return pages * 4096;
  };
  const std::int64_t before = resident();
  const Splits data = open_data("npy:" + path);
  ASSERT_EQ(data.train->size(), 16777216);
  std::vector<float> row(1024, 1);
  for (std::int64_t i = 0; i < 10'000; ++i) {
    const std::int64_t sample = i * 1677;
    data.train->read(0, {&sample, 1}, reinterpret_cast<std::byte*>(row.data()));
    ASSERT_EQ(row[1023], 0);
  }
  EXPECT_LT(resident() - before, 16 << 20);
}

// A header that says more, or less, than the file has; Fortran's order; half floats.
TEST(NpyFiles, HeadersMustFitTheirFiles) {
  const TemporaryFolder folder;
  const std::string good = npy_of(tensor_of({"", {2, 3}}));
  for (const std::string& bytes : {good + "x", good.substr(0, good.size() - 1)}) {
    const std::string path = folder.write("x.npy", bytes);
    expect_error(ExitCode::data,
                 concat("x.npy: [2,3] of '<f4' does not fit the ", bytes.size() - good.size() + 24, " bytes that follow the header"),
                 [&] { open_data("npy:" + path); });
  }
  std::string fortran = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  EXPECT_EQ(shown(*open_data("npy:" + folder.write("f.npy", fortran)).train), "x float32[3]: 1 3 5, 0 2 4");
  std::string halves = npy_of(Tensor::of<std::uint16_t>({2}, {0x3C00, 0xC000}));
  halves.replace(halves.find("<u2"), 3, "<f2");
  EXPECT_EQ(shown(*open_data("npy:" + folder.write("h.npy", halves)).train), "x float32[]: -2, 1");
}

}  // namespace
}  // namespace tandem
