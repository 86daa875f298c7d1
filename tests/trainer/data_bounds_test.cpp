// Data files that ask for more than their bytes can hold: what is counted, and where it ends. docs/reliability.md lists the readers.
#include <sys/resource.h>
#include <zlib.h>

#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "data/image.h"
#include "data/parquet_column.h"
#include "data/thrift.h"
#include "tests/trainer/data_reading.h"
#include "tests/trainer/temporary_folder.h"
#include "tests/trainer/thrift_writer.h"
#include "trainer/feed/feed.h"
#include "trainer/feed/loader.h"

namespace tandem {
namespace {

using List = std::vector<std::string>;

// The most memory that the process has had, in MiB.
long most_memory() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss / 1024;
}

void refused(const TemporaryFolder& folder, const std::string& kind, const std::string& bytes, const std::string& says) {
  const std::string path = folder.write("data", bytes);
  expect_error(ExitCode::data, says, [&] { open_data(concat(kind, ':', path)); });
}

const std::string two_numbers = parquet_page(std::string("\1\0\0\0\2\0\0\0", 8), 2, 0);
std::string good_parquet(const List& groups) {
  return parquet_of(two_numbers, parquet_footer({parquet_root(1), parquet_int32("a")}, 2, groups));
}

TEST(DataBounds, ParquetOfThisTestIsRead) {
  const TemporaryFolder folder;
  folder.write("data", parquet_of(two_numbers, parquet_footer({parquet_root(1), parquet_int32("a")}, 2,
                                                              {parquet_row_group({parquet_chunk(4, two_numbers.size(), 2)}, 2)})));
  const Splits data = open_data(concat("parquet:", (folder / "data").string(), ",x=a"),
                                {.inputs = {{.name = "x", .sample = {DType::float32, {}}}}, .training = false});
  EXPECT_EQ(shown(*data.train), "x float32[]: 2, 1");
}

TEST(DataBounds, ParquetGroupsInGroupsAreCountedWhereTheyAreRequiredToo) {
  const TemporaryFolder folder;
  List schema{parquet_root(1)};
  schema.insert(schema.end(), 200'000, parquet_group("g", 1));
  schema.push_back(parquet_int32("a"));
  refused(folder, "parquet", parquet_of("", parquet_footer(schema, 0, {})), "groups in groups, 101 deep: at most 100");
}

TEST(DataBounds, ParquetColumnsOfARowGroupShareOneSum) {
  const ParquetLeaf leaf{.type = ParquetType::int32};
  const std::string page = parquet_page(std::string(80, '\1'), 20, 0);
  ReadBudget budget(page.size());
  EXPECT_EQ(read_column(leaf, page, 0, 20, budget, "c0").whole.size(), 20u);
  EXPECT_EQ(budget.spent(), 20u * 8);
  budget.hold((std::uint64_t{1} << 30) + 64 * page.size() - 200, "c1");
  expect_error(ExitCode::data, "c2: it grows beyond 10737", [&] { read_column(leaf, page, 0, 20, budget, "c2"); });
  budget.release();  // a row group's
  EXPECT_EQ(read_column(leaf, page, 0, 20, budget, "c3").whole.size(), 20u);
  expect_error(ExitCode::data, "in all, the most for a file of ", [&] { budget.spend(std::uint64_t{1} << 29, "c4"); });
}

TEST(DataBounds, ParquetRowsAreThoseOfItsColumns) {
  const TemporaryFolder folder;
  refused(folder, "parquet",
          good_parquet({parquet_row_group({parquet_chunk(4, two_numbers.size(), std::int64_t{1} << 40)}, std::int64_t{1} << 40)}),
          "it grows beyond ");
  refused(folder, "parquet", good_parquet({parquet_row_group({parquet_chunk(4, two_numbers.size(), 2)}, 0)}),
          "has 2 values for the 0 rows of row group 0");
}

TEST(DataBounds, ParquetColumnsHaveNoBytesInCommon) {
  const TemporaryFolder folder;
  List many;
  std::string filler(100'000, 'x');
  for (int i = 0; i < 3; ++i) many.push_back(parquet_row_group({parquet_chunk(4, two_numbers.size() + filler.size(), 2)}, 2));
  refused(folder, "parquet", parquet_of(two_numbers + filler, parquet_footer({parquet_root(1), parquet_int32("a")}, 6, many)),
          "row group 1, column 'a': its bytes are those of another column");
}

TEST(DataBounds, AParquetColumnBeyondItsFileIsToldAsItIs) {
  const TemporaryFolder folder;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  refused(folder, "parquet", good_parquet({parquet_row_group({parquet_chunk(4, most, 2)}, 2)}),
          concat("column 'a': ", most, " bytes from byte 4 on, 2 values, of a file of "));
}

TEST(DataBounds, AParquetFooterTakesNoMoreMemoryThanItsBytes) {
  const std::string structs(std::size_t{12} << 20, '\0'), whole = "\x19\xfc" + varint(structs.size()) + structs + '\0';
  std::string_view bytes = whole;
  const long before = most_memory();
  Thrift tree;
  ASSERT_TRUE(parse_thrift(bytes, tree));
  EXPECT_EQ(tree[1].list().size(), structs.size());
  EXPECT_LT(most_memory() - before, 100);
}

TEST(DataBounds, ColumnsAreCounted) {
  const TemporaryFolder folder;
  std::string csv = "a", json = "{\"a\": 1", many = json;
  for (int i = 0; i < (1 << 20) + 10; ++i) {
    csv += concat(',', i, 'x');
    many += concat(",\"", i, "\":1");
  }
  refused(folder, "csv", csv + "\n", "more than 1048576 columns");
  refused(folder, "jsonl", many + "}\n", "more than 1048576 columns");
  for (int i = 0; i < 200; ++i)
    json += concat(", \"", i, std::string(60'000, 'k'), "\": {\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1, \"e\": 1, \"f\": 1, \"g\": 1}");
  refused(folder, "jsonl", json + "}\n", "names take more than 67108864 bytes");
  refused(folder, "jsonl", "{\"a\": [" + std::string(std::size_t{17} << 20, ' ') + "1]}\n", "a line of more than 16777216 bytes");
}

// Of 200,000 columns each finds its place at once: by going through all before it this takes minutes.
TEST(DataBounds, ManyColumnsAreFoundAtOnce) {
  const TemporaryFolder folder;
  std::string header, values, object;
  constexpr int columns = 200'000;
  for (int i = 0; i < columns; ++i) {
    header += concat('c', i, ',');
    values += "1,";
    object += concat("\"c", i, "\": 1, ");
  }
  folder.write("x.csv", header + "label\n" + values + "0\n");
  folder.write("x.jsonl", '{' + object + "\"label\": 0}\n");
  const DataRequest request{.inputs = {{.name = "x", .sample = {DType::float32, {columns}}}}, .label = {DType::int64, {}}, .classes = 2};
  for (const char* kind : {"csv", "jsonl"})
    EXPECT_EQ(open_data(concat(kind, ':', (folder / concat("x.", kind)).string()), request).train->fields().size(), 2u);
}

// A grey JPEG of one block, decoded by so many scans.
std::string scans(int count, const std::string& size = std::string("\0\x08\0\x08", 4)) {
  std::string file = "\xff\xd8\xff\xdb" + std::string("\0\x43\0", 3) + std::string(64, '\1') + "\xff\xc2" + std::string("\0\x0b\x08", 3) +
                     size + std::string("\1\1\x11\0", 4) + "\xff\xc4" + std::string("\0\x14\0\1", 4) + std::string(16, '\0');
  for (int i = 0; i < count; ++i) file += "\xff\xda" + std::string("\0\x08\1\1\0\0\0\0\x7f", 9);
  return file + "\xff\xd9";
}
void decode(const std::string& file) {
  Image image;
  decode_image(std::as_bytes(std::span(file)), {}, "test.img", image);
}
bool reads(const char* format) { return image_formats().find(format) != std::string::npos; }

TEST(DataBounds, JpegScansAndBlocksAreCounted) {
  if (!reads("JPEG")) GTEST_SKIP() << "this build is without libjpeg";
  decode(scans(32));
  expect_error(ExitCode::data, "more than 32 scans", [] { decode(scans(33)); });
  expect_error(ExitCode::data, "8000x8000 pixels, which", [] { decode(scans(1, "\x1f\x40\x1f\x40")); });
}

TEST(DataBounds, PngTextsAreNotUnpacked) {
  if (!reads("PNG")) GTEST_SKIP() << "this build is without libpng";
  const auto packed = [](const std::string& text) {
    std::string out(text.size() / 500 + 1000, '\0');
    uLongf size = out.size();
    EXPECT_EQ(compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size(), 9), Z_OK);
    return out.substr(0, size);
  };
  const auto big = [](std::uint64_t v) {
    return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8), static_cast<char>(v)};
  };
  const auto chunk = [&](const std::string& kind, const std::string& body) {
    const std::string all = kind + body;
    return big(body.size()) + all + big(crc32_z(0, reinterpret_cast<const Bytef*>(all.data()), all.size()));
  };
  std::string file = "\x89PNG\r\n\x1a\n" + chunk("IHDR", big(1) + big(1) + std::string("\x08\0\0\0\0", 5));
  const std::string text = packed(std::string(7'900'000, 'a'));
  for (int i = 0; i < 60; ++i) file += chunk("zTXt", concat("key", i) + std::string(2, '\0') + text);
  file += chunk("IDAT", packed(std::string("\0\x05", 2))) + chunk("IEND", "");
  const long before = most_memory();
  decode(file);
  EXPECT_LT(most_memory() - before, 100);
}

TEST(DataBounds, ImagesOfAllThreadsShareOneRoom) {
  ImageRoom first, alone;
  alone.take(data_limits::images_at_a_time * 2);  // where there is nothing else
  alone.release();
  first.take(data_limits::images_at_a_time - 10);
  std::atomic<bool> decoded = false;
  std::thread other([&] {
    ImageRoom room;
    room.take(11);
    decoded = true;
  });
  while (!decoded && ImageRoom::use().waiting == 0) std::this_thread::yield();
  EXPECT_FALSE(decoded);
  EXPECT_EQ(ImageRoom::use().bytes, data_limits::images_at_a_time - 10);
  first.release();
  other.join();
  EXPECT_EQ(ImageRoom::use().bytes, 0u);
}

// A tera of samples, of which 100 differ; counts those that were read.
class Repeating final : public Dataset {
 public:
  std::string name() const override { return "repeating"; }
  std::int64_t size() const override { return std::int64_t{1'000'000'000'000}; }
  std::int64_t distinct(std::size_t) const override { return 100; }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t, std::span<const std::int64_t> samples, std::byte* to) const override {
    count += std::ssize(samples);
    std::fill_n(to, samples.size() * sizeof(std::int64_t), std::byte{});
    if (count > 1'000'000) fail("all are read");
  }
  mutable std::int64_t count = 0;

 private:
  std::vector<Field> fields_{{.name = "labels", .role = Role::label, .sample = {DType::int64, {}}}};
};

TEST(DataBounds, SamplesThatRepeatAreCheckedOnce) {
  const Repeating data;
  Feed feed(data, {{.name = "labels", .sample = {DType::int64, {}}, .label = true, .indices = {.count = 3}}}, {}, 1);
  feed.check_values("softmax-cross-entropy");
  EXPECT_EQ(data.count, 100);
  const Splits noise = open_data("random,samples=1000000000000", {.label = {DType::int64, {}}, .classes = 3});
  EXPECT_LT(noise.train->distinct(0), 10'000'000);
  EXPECT_EQ(noise.test->size(), 1 << 20);
  EXPECT_NE(notes_of(*noise.test).find("1048576 samples"), std::string::npos);
}

TEST(DataBounds, AnOrderOfManySamplesIsComputedWhereItIsAsked) {
  const BatchOrder small{.samples = 1000, .batch = 8, .shuffle = true, .seed = 3},
      large{.samples = 1'000'000'000'000, .batch = 8, .shuffle = true, .seed = 3};
  const EpochOrder listed(small, 2), computed(large, 2), next(large, 3);
  const std::vector<std::int64_t> list = small.epoch(2);
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(listed[i], list[static_cast<std::size_t>(i)]);
  std::set<std::int64_t> met;
  std::int64_t same = 0, low = 0;
  for (std::int64_t i = 0; i < 100'000; ++i) {
    const std::int64_t sample = computed[i];
    EXPECT_TRUE(sample >= 0 && sample < large.samples && met.insert(sample).second) << i;
    same += sample == next[i];
    low += sample < large.samples / 2;
  }
  EXPECT_EQ(same, 0);
  EXPECT_NEAR(static_cast<double>(low), 50'000, 1000);
  EXPECT_EQ((EpochOrder({.samples = large.samples, .batch = 8}, 0)[large.samples - 1]), large.samples - 1);
}

}  // namespace
}  // namespace tandem
