// Data sets from bytes built here: what they hold, and what damaged files are called.
#include <sys/stat.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/file.h"
#include "base/spec.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "data/stream.h"
#include "data/zip.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

std::string big_endian(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8), static_cast<char>(v)};
}
std::string little_endian(std::uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}

std::string idx(const std::vector<std::uint32_t>& dims, const std::string& bytes, char type = 8) {
  std::string s{'\0', '\0', type, static_cast<char>(dims.size())};
  for (const std::uint32_t d : dims) s += big_endian(d);
  return s + bytes;
}

std::string gzip(const std::string& bytes) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, bytes.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string raw_deflate(const std::string& bytes) {
  const std::string wrapped = gzip(bytes);  // a ten-byte header before, eight bytes behind
  return wrapped.substr(10, wrapped.size() - 18);
}

std::uint32_t crc(const std::string& s) {
  return static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(s.data()), static_cast<uInt>(s.size())));
}

// One member, deflated, without zip64: what numpy.savez_compressed writes for small arrays.
std::string deflated_zip(const std::string& name, const std::string& contents, std::uint64_t claimed_size, std::uint32_t claimed_crc) {
  const std::string packed = raw_deflate(contents);
  const std::string shared = little_endian(20, 2) + little_endian(0, 2) + little_endian(8, 2) + little_endian(0, 4) +
                             little_endian(claimed_crc, 4) + little_endian(packed.size(), 4) + little_endian(claimed_size, 4) +
                             little_endian(name.size(), 2);
  const std::string local = little_endian(0x04034b50, 4) + shared + little_endian(0, 2) + name + packed;
  const std::string entry = little_endian(0x02014b50, 4) + little_endian(20, 2) + shared + little_endian(0, 2) + little_endian(0, 2) +
                            little_endian(0, 4) + little_endian(0, 4) + little_endian(0, 4) + name;
  return local + entry + little_endian(0x06054b50, 4) + little_endian(0, 4) + little_endian(1, 2) + little_endian(1, 2) +
         little_endian(entry.size(), 4) + little_endian(local.size(), 4) + little_endian(0, 2);
}

std::string npy(const std::string& dictionary, const std::string& data, char major = 1) {
  const std::string header = dictionary + "\n";
  return std::string("\x93NUMPY") + major + '\0' + little_endian(header.size(), major == 1 ? 2 : 4) + header + data;
}

template <class T>
std::string bytes_of(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> read(const Dataset& data, std::size_t field, std::vector<std::int64_t> samples) {
  std::vector<T> out(samples.size() * static_cast<std::size_t>(data.fields()[field].sample.shape.elements()));
  data.read(field, samples, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

class IdxFiles {
 public:
  IdxFiles() {
    for (const std::string part : {"train", "t10k"}) {
      folder.write(part + "-images-idx3-ubyte", idx({3, 2, 2}, "abcdefghijkl"));
      folder.write(part + "-labels-idx1-ubyte", idx({3}, {'\1', '\2', '\0'}));
    }
  }
  Splits open() const { return open_data("idx:" + folder.text()); }
  TemporaryFolder folder;
};

TEST(Idx, HoldsImagesAndLabels) {
  const IdxFiles files;
  const Splits splits = files.open();
  ASSERT_EQ(splits.train->size(), 3);
  EXPECT_EQ(to_string(splits.train->fields()[0].sample), "uint8[1,2,2]");
  EXPECT_TRUE(splits.train->fields()[0].pixels);
  EXPECT_EQ(read<char>(*splits.train, 0, {2, 0}), std::vector<char>({'i', 'j', 'k', 'l', 'a', 'b', 'c', 'd'}));
  EXPECT_EQ(read<std::uint8_t>(*splits.test, 1, {1}), std::vector<std::uint8_t>({2}));
}

TEST(Idx, ReadsGzipAndDottedNames) {
  const IdxFiles files;
  std::filesystem::remove(files.folder / "train-images-idx3-ubyte");
  files.folder.write("train-images.idx3-ubyte.gz", gzip(idx({3, 2, 2}, "ABCDEFGHIJKL")));
  EXPECT_EQ(read<char>(*files.open().train, 0, {1}), std::vector<char>({'E', 'F', 'G', 'H'}));
}

TEST(Idx, GzipThatGrowsWithoutBoundIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("zeros.gz", gzip(std::string(4 << 20, '\0')));  // of about 4 KB
  EXPECT_EQ(read_maybe_gzip(path).size(), 4U << 20);
  expect_error(ExitCode::data, "grow beyond", [&] { read_maybe_gzip(path, 1 << 20); });
}

struct BadFile {
  const char* name;
  const char* file;
  std::string bytes;
  const char* message;
};
void PrintTo(const BadFile& row, std::ostream* out) {
  *out << row.name;
}

class BadIdx : public testing::TestWithParam<BadFile> {};
TEST_P(BadIdx, IsADataError) {
  const IdxFiles files;
  files.folder.write(GetParam().file, GetParam().bytes);
  expect_error(ExitCode::data, GetParam().message, [&] { files.open(); });
}
INSTANTIATE_TEST_SUITE_P(
    Rows, BadIdx,
    testing::Values(
        BadFile{"empty", "train-images-idx3-ubyte", "", "not an idx file"},
        BadFile{"no zero bytes", "train-images-idx3-ubyte", "PNG\1xxxxxxxx", "not an idx file"},
        BadFile{"floats", "train-images-idx3-ubyte", idx({3, 2, 2}, "abcdefghijkl", 13), "element type 13, expected 8"},
        BadFile{"wrong rank", "train-images-idx3-ubyte", idx({12}, "abcdefghijkl"), "idx rank 1, expected 3"},
        BadFile{"cut header", "train-images-idx3-ubyte", std::string("\0\0\10\3\0\0", 6), "truncated in the header"},
        BadFile{"cut pixels", "train-images-idx3-ubyte", idx({3, 2, 2}, "abcdefghij"), "the header says [3,2,2], 10 bytes follow"},
        BadFile{"sizes that overflow", "train-images-idx3-ubyte", idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "abc"), "3 bytes follow"},
        BadFile{"another count of labels", "train-labels-idx1-ubyte", idx({2}, {'\1', '\2'}), "2 labels for 3 images"},
        BadFile{"cut gzip", "train-images-idx3-ubyte", gzip(idx({3, 2, 2}, "abcdefghijkl")).substr(0, 20), "gzip data is damaged"}));

TEST(Idx, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  expect_error(ExitCode::io, "train-images-idx3-ubyte: no such file", [&] { open_data("idx:" + folder.text()); });
}

TEST(Cifar10, HoldsRecordsAndRefusesParts) {
  const TemporaryFolder folder;
  std::string record(3073, '\0');
  record[0] = 7;
  record[1] = 11;
  record[3072] = 13;
  for (int i = 1; i <= 5; ++i) folder.write("data_batch_" + std::to_string(i) + ".bin", record + record);
  folder.write("test_batch.bin", record);
  const Splits splits = open_data("cifar10:" + folder.text());
  EXPECT_EQ(splits.train->size(), 10);
  EXPECT_EQ(splits.test->size(), 1);
  const std::vector<std::uint8_t> image = read<std::uint8_t>(*splits.train, 0, {9});
  EXPECT_EQ(image.front(), 11);
  EXPECT_EQ(image.back(), 13);
  EXPECT_EQ(read<std::uint8_t>(*splits.train, 1, {9})[0], 7);
  folder.write("test_batch.bin", record + "x");
  expect_error(ExitCode::data, "3074 bytes, expected a multiple of 3073", [&] { open_data("cifar10:" + folder.text()); });
}

TEST(Data, AFolderOrFileWithoutAKindIsWhatItsNamesSay) {
  const IdxFiles files;
  EXPECT_EQ(open_data(files.folder.text()).train->name(), concat("idx:", files.folder.text(), ", train"));
  const TemporaryFolder folder;
  folder.write("test_batch.bin", std::string(3073, '\0'));
  EXPECT_EQ(open_data(folder.text(), {.parts = {"test"}}).test->name(), concat("cifar10:", folder.text(), ", test"));
  const std::string table = folder.write("t.csv.gz", gzip("x,y\n1,2\n3,4\n"));
  EXPECT_EQ(open_data(table).train->size(), 2);
  const TemporaryFolder empty;
  expect_error(ExitCode::data, "no images in it", [&] { open_data(empty.text()); });
}

TEST(Npy, RoundTripsEveryType) {
  for (const DType dtype : {DType::boolean, DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint32, DType::int32,
                            DType::uint64, DType::int64, DType::float32, DType::float64})
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 4}}) {
      Tensor t(TensorType{dtype, shape});
      for (std::size_t i = 0; i < t.bytes().size(); ++i) t.write()[i] = std::byte(dtype == DType::boolean ? i % 2 : i + 1);
      const std::string file = npy_of(t);
      EXPECT_EQ((file.size() - t.bytes().size()) % 64, 0u) << to_string(t.type());
      const Tensor back = parse_npy(std::as_bytes(std::span(file)), "test");
      EXPECT_EQ(back.type(), t.type());
      EXPECT_TRUE(std::equal(back.bytes().begin(), back.bytes().end(), t.bytes().begin()));
    }
}

TEST(Npy, ReadsFortranOrderHalfFloatsAndVersion2) {
  const std::string fortran =
      npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}", bytes_of<std::int32_t>({1, 4, 2, 5, 3, 6}), 2);
  EXPECT_EQ(parse_npy(std::as_bytes(std::span(fortran)), "test").to_int64s(), std::vector<std::int64_t>({1, 2, 3, 4, 5, 6}));
  const std::string half =
      npy("{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }", bytes_of<std::uint16_t>({0x3C00, 0xC000, 0x0001, 0x7BFF}));
  EXPECT_EQ(parse_npy(std::as_bytes(std::span(half)), "test").to_doubles(), std::vector<double>({1, -2, 0x1p-24, 65504}));
}

class BadNpy : public testing::TestWithParam<BadFile> {};
TEST_P(BadNpy, IsADataError) {
  const std::string& bytes = GetParam().bytes;
  expect_error(ExitCode::data, GetParam().message, [&] { parse_npy(std::as_bytes(std::span(bytes)), "x.npy"); });
}
INSTANTIATE_TEST_SUITE_P(
    Rows, BadNpy,
    testing::Values(
        BadFile{"empty", "", "", "not an npy array"}, BadFile{"version 9", "", npy("{}", "", 9), "npy version 9"},
        BadFile{"cut header", "", std::string("\x93NUMPY\1\0\377\377{'descr'", 18), "truncated in the npy header"},
        BadFile{"no shape", "", npy("{'descr': '<f4', 'fortran_order': False}", ""), "'shape' is missing or damaged"},
        BadFile{"negative shape", "", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ""), "'shape' is missing or damaged"},
        BadFile{"big-endian", "", npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "1234"), "'>f4', expected little-endian"},
        BadFile{"objects", "", npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "1234"), "'|O', expected little-endian"},
        BadFile{"too few bytes", "", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234"),
                "[2] of '<f4' does not fit the 4 bytes"},
        BadFile{"a shape that overflows", "",
                npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}", "1234"),
                "does not fit the 4 bytes"}));

std::string arrays(const std::string& ending, std::int64_t samples) {
  std::string bytes;
  ZipWriter zip([&](std::string_view part) { bytes += part; });
  std::vector<float> x(static_cast<std::size_t>(samples * 4));
  std::vector<std::int64_t> y(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int64_t>(i % 3);
  zip.add("x" + ending + ".npy", npy_of(Tensor::of<float>({samples, 4}, x)));
  zip.add("y" + ending + ".npy", npy_of(Tensor::of<std::int64_t>({samples}, y)));
  zip.finish();
  return bytes;
}

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  const TemporaryFolder folder;
  const Splits stored = open_data("npz:" + folder.write("a.npz", arrays("_train", 5)));
  EXPECT_EQ(stored.train->size(), 5);
  EXPECT_FALSE(stored.test);
  EXPECT_EQ(read<float>(*stored.train, 0, {4}), std::vector<float>({16, 17, 18, 19}));

  const std::string array = npy_of(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const Splits deflated = open_data("npz:" + folder.write("b.npz", deflated_zip("x.npy", array, array.size(), crc(array))));
  EXPECT_EQ(read<float>(*deflated.train, 0, {1}), std::vector<float>({3, 4}));
}

TEST(Npz, DamageIsNamed) {
  const TemporaryFolder folder;
  const std::string good = arrays("", 5), array = npy_of(Tensor::of<float>({2}, {1, 2}));
  std::string flipped = good;
  flipped[good.find("x.npy") + 200] ^= 1;
  std::string noise(2'200'000, '\0');  // does not compress: it could hold the 2 GB that it claims
  Random random(1, 0);
  for (char& c : noise) c = static_cast<char>(random.next());
  const BadFile rows[] = {
      {"a bomb that could be one", "", deflated_zip("x.npy", noise, 0x80000000, crc(noise)), "grow beyond"},
      {"text", "", "hello", "not a zip archive"},
      {"cut in half", "", good.substr(0, good.size() / 2), "not a zip archive, or truncated"},
      {"its start cut off", "", good.substr(40), "damaged"},
      {"a flipped bit", "", flipped, "its CRC differs"},
      {"a bomb", "", deflated_zip("x.npy", array, 0xFFFFFFF0, crc(array)), "cannot hold"},
      {"a size too small", "", deflated_zip("x.npy", array, array.size() - 1, crc(array)), "is damaged (deflate)"},
      {"other arrays", "", deflated_zip("z.npy", array, array.size(), crc(array)), "holds z.npy, expected arrays x and y"},
  };
  for (const BadFile& row : rows) {
    SCOPED_TRACE(row.name);
    const std::string path = folder.write("bad.npz", row.bytes);
    expect_error(ExitCode::data, row.message, [&] { open_data("npz:" + path); });
  }
}

TEST(Npz, SamplesMustAgree) {
  const TemporaryFolder folder;
  std::string bytes;
  ZipWriter zip([&](std::string_view part) { bytes += part; });
  zip.add("x.npy", npy_of(Tensor::of<float>({3}, {1, 2, 3})));
  zip.add("y.npy", npy_of(Tensor::of<std::int64_t>({2}, {1, 2})));
  zip.finish();
  const std::string path = folder.write("a.npz", bytes);
  expect_error(ExitCode::data, "'y' has 2 samples, 'x' has 3", [&] { open_data("npz:" + path); });
}

TEST(Data, UnknownNamesAndOptions) {
  expect_error(ExitCode::usage, "unknown data 'idy:x', did you mean 'idx'?", [] { open_data("idy:x"); });
  expect_error(ExitCode::usage, "has no option 'tran', did you mean 'train'?", [] { open_data("synthetic:digits,tran=5"); });
  expect_error(ExitCode::usage, "unknown data 'synthetic:letters'", [] { open_data("synthetic:letters"); });
  expect_error(ExitCode::usage, "train: 'many' is not a whole number", [] { open_data("synthetic:digits,train=many"); });
  expect_error(ExitCode::io, "missing.npz: cannot be read", [] { open_data("npz:missing.npz"); });
}

TEST(Files, AreReplacedWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "before");
  write_atomically(path, "after");
  EXPECT_EQ(read_file(path), "after");
  std::filesystem::create_directory(folder / "b");
  folder.write("b/c", "x");
  expect_error(ExitCode::io, "is a folder", [&] { write_atomically(folder / "b", "y"); });
  expect_error(ExitCode::io, "is a folder", [&] { check_writable_file(folder / "b"); });
  expect_error(ExitCode::io, "cannot be created", [&] { check_writable_file(folder / "a/x/y"); });
}

// A rename onto a device or a pipe would replace it.
TEST(Files, WriteNeverReplacesAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    expect_error(ExitCode::io, "is a device or a pipe", [&] { check_writable_file(folder / name); });
    expect_error(ExitCode::io, "is a device or a pipe", [&] { write_atomically(folder / name, "x"); });
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
}

}  // namespace
}  // namespace tandem
