// Samples in tar shards and in TFRecord files, written here byte by byte: what they hold, and what damage is called.
#include <zlib.h>

#include <bit>
#include <random>

#include "base/crc32c.h"
#include "data/npy.h"
#include "tests/trainer/data_reading.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

const std::string jpeg = "\xff\xd8\xff\xe0 a photograph", png = "\x89PNG\r\n\x1a\n a drawing of more bytes than the first has";

std::string tar_member(const std::string& name, const std::string& contents, char type = '0') {
  std::string h(512, '\0');
  h.replace(0, std::min<std::size_t>(name.size(), 100), name, 0, 100);
  char size[12];
  std::snprintf(size, sizeof size, "%011zo", contents.size());
  h.replace(124, 11, size);
  h[156] = type;
  h.replace(257, 8, std::string("ustar\0" "00", 8));
  h.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : h) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  h.replace(148, 7, std::string(text, 7));
  std::string body = contents;
  body.resize((body.size() + 511) / 512 * 512);
  return h + body;
}
std::string pax_name(const std::string& name) {
  const std::string record = concat(" path=", name, "\n");
  const std::size_t length = record.size() + std::to_string(record.size() + 3).size();
  return tar_member("pax", concat(length, record), 'x');
}
const std::string tar_end(1024, '\0');

std::string two_samples() {
  return tar_member("./dir/", "", '5') + tar_member("dir/0001.jpg", jpeg) + tar_member("dir/0001.cls", "3\n") +
         tar_member("dir/0001.json", "{\"weight\": 0.5}") + tar_member("dir/0002.jpg", png) + tar_member("dir/0002.cls", "1") +
         tar_member("dir/0002.json", "{\"weight\": 2}") + tar_end;
}

std::string gzipped(const std::string& text, const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

TEST(WebDataset, MembersOfAKeyAreASample) {
  const TemporaryFolder folder;
  for (const std::string& path : {folder.write("a.tar", two_samples()), gzipped(two_samples(), (folder / "a.tar.gz").string())}) {
    const Splits data = open_data("webdataset:" + path + ",weight=weight");
    EXPECT_EQ(shown(*data.train), concat("weight sample_weight float32[]: 2, 0.5; label y int64[]: 1, 3; x image: ", png.size(), " bytes, ",
                                         jpeg.size(), " bytes"));
    std::vector<std::byte> bytes;
    data.train->encoded(2, 0, bytes);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), jpeg);
    EXPECT_EQ(data.train->describe(1), path + ": sample 1");
  }
}

TEST(WebDataset, ShardsLongNamesArraysAndTexts) {
  const TemporaryFolder folder;
  const std::string array = npy_of(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const std::string name(150, 'n');
  folder.write("a-000.tar",
               pax_name(name + ".txt") + tar_member("short", "cat") + pax_name(name + ".x.npy") + tar_member("short", array) + tar_end);
  folder.write("a-001.tar", tar_member("@LongLink", name + "2.txt" + std::string(1, '\0'), 'L') + tar_member("short", "ant\n") +
                                tar_member("@LongLink", name + "2.x.npy" + std::string(1, '\0'), 'L') + tar_member("short", array));
  const Splits data = open_data("webdataset:" + (folder / "a-{000..001}.tar").string() + ",x=x.npy,y=txt", four_numbers());
  EXPECT_EQ(shown(*data.train), "x float32[4]: 1 2 3 4, 1 2 3 4; label y int64[]: 0, 1");
}

TEST(WebDataset, DamageIsNamedByByteOrSample) {
  const TemporaryFolder folder;
  const std::string good = two_samples();
  std::string flipped = good, longer = tar_member("1.jpg", jpeg);
  flipped[512 + 3] ^= 1;
  const std::pair<std::string, const char*> rows[] = {
      {"", "holds no samples"},
      {std::string(700, 'x'), "byte 0: no tar header (its checksum differs)"},
      {flipped, "byte 512: no tar header"},
      {good.substr(0, 1200), "byte 512: truncated: a member of 17 bytes in whole blocks, 176 follow"},
      {good.substr(0, 1024 + 512 + 1), "byte 1536: truncated in a header"},
      {longer.substr(0, 520), "byte 0: truncated: a member of 17 bytes in whole blocks, 8 follow"},
      {tar_member("1.jpg", jpeg) + tar_member("1.cls", "0") + tar_member("2.jpg", jpeg) + tar_member("3.cls", "0"), "column 'cls': no value (1 of them in all)"},
      {tar_member("1.jpg", jpeg) + tar_member("1.cls", "0") + tar_member("2.jpg", "text") + tar_member("2.cls", "0"), "sample 1, column 'jpg'"},
      {tar_member("1.jpg", jpeg) + tar_member("1.cls", "0") + tar_member("1.json", "{\"a\":"), "sample 0, member .json: "}};
  for (const auto& [bytes, message] : rows) {
    const std::string path = folder.write("a.tar", bytes);
    expect_error(ExitCode::data, message, [&] { open_data("webdataset:" + path); });
  }
  // Headers and contents that are damaged where the sums are right.
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    std::string bad = pax_name("0001.jpg") + good;
    for (int k = 0; k < 3; ++k) {
      const std::size_t at = random() % (bad.size() - 1024);
      bad[at % 3 ? at / 512 * 512 + at % 160 : at] = static_cast<char>(random() % 2 ? random() : '0' + random() % 8);
    }
    for (std::size_t at = 0; at < bad.size(); at += 512) {
      if (bad.compare(at + 257, 5, "ustar") != 0) continue;
      unsigned sum = 8 * ' ';
      for (std::size_t b = 0; b < 512; ++b) sum += b >= 148 && b < 156 ? 0 : static_cast<unsigned char>(bad[at + b]);
      char text[8];
      std::snprintf(text, sizeof text, "%06o", sum);
      bad.replace(at + 148, 7, std::string(text, 7));
    }
    const std::string path = folder.write("a.tar", bad);
    try {
      open_data("webdataset:" + path);
    } catch (const Error& e) {
      EXPECT_TRUE(e.code() == ExitCode::data || e.code() == ExitCode::usage) << e.what();
    }
  }
}

// Protobuf's wire format, and TensorFlow's records around it.
std::string varint(std::uint64_t v) {
  std::string s;
  for (; v > 127; v >>= 7) s += static_cast<char>((v & 127) | 128);
  return s + static_cast<char>(v);
}
std::string message(int field, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string floats(const std::vector<float>& values, bool packed = true) {
  std::string list;
  for (const float v : values) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    if (!packed) list += varint(1 << 3 | 5);
    for (int i = 0; i < 4; ++i) list += static_cast<char>(bits >> (8 * i));
  }
  return message(2, packed ? message(1, list) : list);
}
std::string whole(const std::vector<std::int64_t>& values) {
  std::string list;
  for (const std::int64_t v : values) list += varint(static_cast<std::uint64_t>(v));
  return message(3, message(1, list));
}
std::string bytes(const std::string& value) { return message(1, message(1, value)); }
std::string example(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string map;
  for (const auto& [name, feature] : features) map += message(1, message(1, name) + message(2, feature));
  return message(1, map);
}
std::string little(std::uint64_t v, int count) {
  std::string s;
  for (int i = 0; i < count; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}
std::string masked(const std::string& s) {
  return little((std::rotr(crc32c(0, std::as_bytes(std::span(s))), 15) + 0xa282ead8u) & 0xffffffffu, 4);
}
std::string record(const std::string& s) {
  const std::string length = little(s.size(), 8);
  return length + masked(length) + s + masked(s);
}

TEST(TfRecord, FeaturesAreColumns) {
  const TemporaryFolder folder;
  const std::string a = record(example({{"label", whole({2})}, {"x", floats({1, 2, 3, 4})}})),
                    b = record(example({{"x", floats({5, 6, 7, 8}, false)}, {"label", whole({0})}}));
  folder.write("a-0.tfrecord", a);
  gzipped(b, (folder / "a-1.tfrecord").string());
  const Splits data = open_data("tfrecord:" + (folder / "a-*.tfrecord").string(), four_numbers());
  EXPECT_EQ(shown(*data.train), "x float32[4]: 5 6 7 8, 1 2 3 4; label y int64[]: 0, 2");
  EXPECT_EQ(data.train->describe(1), (folder / "a-1.tfrecord").string() + ": record 0");
}

TEST(TfRecord, ImagesAndTexts) {
  const TemporaryFolder folder;
  const auto sample = [](const std::string& image, const std::string& name) {
    return record(example({{"image/encoded", bytes(image)}, {"image/class/label", bytes(name)}, {"image/width", whole({-5})}}));
  };
  const std::string both = sample(jpeg, "cat") + sample(png, "ant");
  for (const std::string& path : {folder.write("a", both), gzipped(both, (folder / "b").string())}) {
    const Splits data = open_data("tfrecord:" + path);
    EXPECT_EQ(shown(*data.train), concat("label y int64[]: 0, 1; x image: ", png.size(), " bytes, ", jpeg.size(), " bytes"));
    std::vector<std::byte> read;
    data.train->encoded(1, 1, read);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.data()), read.size()), png);
    EXPECT_EQ(shown(*open_data("tfrecord:" + path + ",x=image/width,y=image/class/label").train),
              "x float32[]: -5, -5; label y int64[]: 0, 1");
  }
}

TEST(TfRecord, DamageIsNamedByRecord) {
  const TemporaryFolder folder;
  const std::string good = record(example({{"label", whole({2})}, {"x", floats({1, 2})}}));
  std::string data = good + good, length = good + good;
  data[good.size() + 14] ^= 1;
  length[good.size()] ^= 1;
  const std::string huge = little(std::uint64_t{1} << 62, 8);
  const std::pair<std::string, const char*> rows[] = {
      {"", "empty, expected records"},
      {std::string(100, 'x'), "record 0: the length's CRC differs (byte 0): damaged, or no TFRecord file"},
      {data, "record 1: its CRC differs"},
      {length, "record 1: the length's CRC differs"},
      {good + good.substr(0, 30), "record 1: truncated"},
      {good + good.substr(0, 7), "record 1: truncated: 7 bytes are left"},
      {huge + masked(huge) + "abcdefgh", "record 0: truncated: 4611686018427387904 bytes are wanted"},
      {record("\x0a\xff\xff\xff\xff\x0f"), "record 0: no Example message"},
      {record(""), "record 0 is no Example with features"},
      {good + record(example({{"label", whole({2})}, {"x", message(2, message(1, "abc"))}})), "record 1: feature 'x' is damaged"},
      {good + record(example({{"label", whole({2})}, {"x", floats({1})}})), "record 1, column 'x': a list of 1 numbers, those before have 2"},
      {good + record(example({{"label", whole({2})}})), "record 1, column 'x': no value"}};
  for (const auto& [bytes, message] : rows) {
    const std::string path = folder.write("a.tfrecord", bytes);
    expect_error(ExitCode::data, message, [&] { open_data("tfrecord:" + path + ",x=x,y=label"); });
  }
  // Messages that are damaged where the sums are right.
  const std::string sound = example({{"label", whole({2})}, {"x", floats({1, 2})}});
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    std::string bad = sound;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    const std::string path = folder.write("a.tfrecord", record(bad));
    try {
      open_data("tfrecord:" + path + ",x=x,y=label");
    } catch (const Error& e) {
      EXPECT_TRUE(e.code() == ExitCode::data || e.code() == ExitCode::usage) << e.what();
    }
  }
  // Every cut and every flipped byte is found: both sums are checked.
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    const std::string path = folder.write("a.tfrecord", bad);
    expect_error(ExitCode::data, "record 0", [&] { open_data("tfrecord:" + path + ",x=x,y=label"); });
  }
}

}  // namespace
}  // namespace tandem
