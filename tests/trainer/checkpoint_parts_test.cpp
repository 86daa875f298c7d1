// Checkpoints in parts, as files: an index with its parts gives what was written, and nothing else is taken for one.
#include "trainer/checkpoint_parts.h"

#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "tests/trainer/flipped_bits.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Of a matrix rank 0 has the odd columns and rank 1 the even ones; of a tensor of three axes each has indices along two of them.
const TensorType matrix{DType::float32, {5, 4}}, cube{DType::int16, {3, 4, 5}}, number{DType::float64, {}};

Tensor counted(const TensorType& type) {
  Tensor t(type);
  std::span<std::byte> bytes = t.write();
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return t;
}

Tensor part_of(const PlacedValue& value) {
  Tensor part({value.type.dtype, shape_of(value.type.shape, value.runs)});
  const Tensor whole = counted(value.type);
  const std::span<std::byte> to = part.write();
  for_each_run(value.type, value.runs, 0, bytes_of(value.type), [&](std::int64_t from, std::int64_t at, std::int64_t bytes) {
    whole.read(to.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes)), from);
  });
  return part;
}

// Writes a checkpoint of two parts and returns the names of these.
std::vector<std::string> write(const fs::path& index, std::int64_t step, std::uint32_t drawn = 7) {
  const AxisRuns all, odd{{{0, 5}}, {{1, 2}, {3, 4}}}, even{{{0, 5}}, {{0, 1}, {2, 3}}};
  std::vector<PlacedValue> values{{"weights", "a/b", matrix, odd, 0},
                                  {"weights", "a/b", matrix, even, 1},
                                  {"weights", "b\xff%", number, all, 1},
                                  {"optimizer", "m/c", cube, {{{0, 2}}, {{0, 4}}, {{0, 5}}}, 0},
                                  {"optimizer", "m/c", cube, {{{2, 3}}, {{0, 1}, {3, 4}}}, 0},
                                  {"optimizer", "m/c", cube, {{{2, 3}}, {{1, 3}}}, 1}};
  std::vector<CheckpointPart> parts;
  std::vector<std::string> names;
  for (int r = 0; r < 2; ++r) {
    const auto part = static_cast<std::size_t>(r);
    const PartHeader header = lay_out(values, part);
    names.push_back(name_of_part(step, drawn, r, 2));
    const fs::path file = folder_of_parts(index) / names.back();
    WrittenPart written = write_part(file, header, values, part, [&](std::size_t i) { return part_of(values[i]); });
    EXPECT_FALSE(fs::exists(file));
    written.file.commit();
    EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(file)), header.file_bytes);
    parts.push_back({names.back(), header.file_bytes, written.crc32c});
  }
  write_index(index, Json::Object{{"step", step}}, json_of_parts(parts, values));
  return names;
}

TEST(CheckpointParts, GiveTheValuesBitByBit) {
  const TemporaryFolder folder;
  write(folder / "c", 3);
  const Checkpoint back = read_checkpoint(folder / "c");
  EXPECT_EQ(back.state.at("step").integer(), 3);
  ASSERT_EQ(back.weights.size(), 2U);
  ASSERT_EQ(back.optimizer.size(), 1U);
  EXPECT_EQ(back.weights[1].name, "b\xff%");
  EXPECT_EQ(back.optimizer[0].name, "m/c");
  for (const NamedTensor& t : {back.weights[0], back.weights[1], back.optimizer[0]}) {
    const Tensor wanted = counted(t.tensor.type());
    for (std::int64_t from = 0; from < wanted.byte_size(); ++from)  // any bytes, before all are in memory
      for (std::int64_t end = from; end <= wanted.byte_size(); end += 3) {
        std::vector<std::byte> got(static_cast<std::size_t>(end - from));
        t.tensor.read(got, from);
        const auto there = wanted.bytes().subspan(static_cast<std::size_t>(from), got.size());
        ASSERT_TRUE(std::ranges::equal(got, there)) << t.name << from << ' ' << end;
      }
    EXPECT_TRUE(t.tensor == wanted) << t.name;
  }
}

// The parts of more ranks than this process may have files open.
TEST(CheckpointParts, AreReadOfMoreRanksThanFilesCanBeOpen) {
  constexpr int ranks = 1500;
  const TemporaryFolder folder;
  fs::create_directory(folder / "parts");
  const TensorType type{DType::float32, {ranks, 4}};
  std::vector<PlacedValue> values;
  for (int r = 0; r < ranks; ++r)
    values.push_back({"weights", "w", type, {std::vector<IndexRun>{{r, r + 1}}}, static_cast<std::size_t>(r)});
  std::vector<CheckpointPart> parts;
  for (int r = 0; r < ranks; ++r) {
    const auto part = static_cast<std::size_t>(r);
    std::string bytes = lay_out(values, part).text;
    const Tensor row = part_of(values[part]);
    bytes.append(reinterpret_cast<const char*>(row.bytes().data()), row.bytes().size());
    const std::string name = name_of_part(3, 7, r, ranks);
    folder.write("parts/" + name, bytes);
    parts.push_back({name, std::ssize(bytes), crc32c(0, std::as_bytes(std::span(bytes)))});
  }
  write_index(folder / "c", Json::Object{}, json_of_parts(parts, values));

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 256, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  struct Restore {
    const rlimit& limit;
    ~Restore() { ::setrlimit(RLIMIT_NOFILE, &limit); }
  } restored{before};
  for (const bool checks : {true, false}) {
    const Checkpoint back = read_checkpoint(folder / "c", [&](std::size_t) { return checks; });
    ASSERT_EQ(back.weights.size(), 1U);
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(back.weights[0].tensor == counted(type));
      back.weights[0].tensor.release();
    }
    // A part that is replaced while the checkpoint is in use is another.
    const fs::path first = folder / "parts" / parts[0].name;
    const std::string bytes = read_file(first);
    write_atomically(first, bytes);
    expect_error(ExitCode::data, first.string() + ": has changed while it is in use", [&] { back.weights[0].tensor.bytes(); });
  }
}

// Whatever happens to a part is found and told by its name.
TEST(CheckpointParts, AreTakenOnlyAsTheyWereWritten) {
  const TemporaryFolder folder;
  const std::vector<std::string> names = write(folder / "c", 3), others = write(folder / "other", 3, 8);
  const fs::path part = folder_of_parts(folder / "c") / names[1];
  const std::string good = read_file(part);
  const auto refused = [&](const std::string& bytes, const std::string& what) {
    write_atomically(part, bytes);
    expect_error(ExitCode::data, concat(part.string(), ": is not the part that ", (folder / "c").string(), " names: ", what),
                 [&] { read_checkpoint(folder / "c"); });
  };
  refused(good.substr(0, good.size() - 1), concat("it has ", good.size() - 1, " bytes, expected ", good.size()));
  refused(good + '\0', "it has ");
  refused("", "it has 0 bytes");
  for_each_flipped_bit(good, [&](const std::string& bytes) { refused(bytes, "its checksum differs"); });
  // Another rank's share of the check finds it; who does not check it reads nothing of it.
  EXPECT_NO_THROW(read_checkpoint(folder / "c", [](std::size_t file) { return file == 0; }));
  fs::remove(part);
  expect_error(ExitCode::io, part.string() + ": cannot be read", [&] { read_checkpoint(folder / "c"); });
  write_atomically(part, good);
  EXPECT_NO_THROW(read_checkpoint(folder / "c"));
}

TEST(CheckpointParts, NoBitOfAnIndexCanChange) {
  const TemporaryFolder folder;
  write(folder / "c", 3);
  const std::string good = read_file(folder / "c");
  for_each_flipped_bit(good, [&](const std::string& bytes) {
    EXPECT_THROW(read_checkpoint(folder.write("flipped", bytes)), Error);
  });
  for (std::size_t size = 0; size < good.size(); size += 7) {
    folder.write("cut", good.substr(0, size));
    EXPECT_THROW(read_checkpoint(folder / "cut"), Error) << size;
  }
}

// An index may come from anyone: it names no file elsewhere, and no place that is none.
TEST(CheckpointParts, AnIndexSaysOnlyWhatCanBe) {
  const TemporaryFolder folder;
  const std::string name = write(folder / "c", 3)[0];
  const std::int64_t bytes = static_cast<std::int64_t>(fs::file_size(folder_of_parts(folder / "c") / name));
  const auto refused = [&](const std::string& what, const std::string& json) {
    write_index(folder / "wrong", Json::Object{}, Json::parse(json));
    expect_error(ExitCode::data, concat(": is damaged (", what), [&] {
      read_checkpoint(folder / "wrong", [](std::size_t) { return false; });
    });
  };
  for (const char* elsewhere : {"../c", "/etc/passwd", "step-1/../../c.part", "step-.part", "c"})
    refused(concat("'", elsewhere, "' is no part's name"),
            concat(R"({"parts":[{"name":")", elsewhere, R"(","bytes":1,"crc32c":0}],"values":[]})"));
  const auto value = [&](const std::string& places, const std::string& shape = "[2,3]") {
    return concat(R"({"parts":[{"name":")", name, R"(","bytes":)", bytes, R"(,"crc32c":0}],)",
                  R"("values":[{"name":"weights/a","dtype":"F32","shape":)", shape, R"(,"places":)", places, "}]}");
  };
  refused("'weights/a' is in part 1 of 1", value("[[1,0,[]]]"));
  refused("'weights/a' has 24 bytes at -1", value("[[0,-1,[]]]"));
  refused("'weights/a' has 24 bytes at 9223372036854775807", value("[[0,9223372036854775807,[]]]"));
  refused("a part of [2,3] has 1 to 4 of 3", value("[[0,8,[[0,2],[1,4]]]]"));
  refused("a part of [2,3] has 0 to 1 of 2", value("[[0,8,[[0,1,0,1]]]]"));
  refused("a part of [2,3] has 1 to 1 of 2", value("[[0,8,[[1,1]]]]"));
  refused("a part of [2,3] has an axis of 1 numbers", value("[[0,8,[[1]]]]"));
  refused("a part of [2,3] has 3 axes", value("[[0,8,[[0,2],[0,3],[0,1]]]]"));
  refused("'weights/a' float32[2,3] has 12 bytes in parts, expected 24", value("[[0,8,[[0,1]]]]"));
  refused("'weights/a' float32[2,3] has 0 bytes in parts", value("[]"));
  refused("shape has a dimension of ", value("[[0,8,[]]]", "[9223372036854775807,9223372036854775807]"));
  // As many bytes as the value has, of one half twice.
  write_index(folder / "twice", Json::Object{}, Json::parse(value("[[0,8,[[0,1]]],[0,8,[[0,1]]]]")));
  const Checkpoint twice = read_checkpoint(folder / "twice", [](std::size_t) { return false; });
  expect_error(ExitCode::data, "its parts do not have each byte of a value once, float32[2,3]", [&] { twice.weights[0].tensor.bytes(); });
}

// What no index names is left of a killed run. What one names stays, also under its other names.
TEST(CheckpointParts, WithoutAnIndexGo) {
  const TemporaryFolder folder;
  const fs::path parts = folder_of_parts(folder / "last.checkpoint");
  const std::vector<std::string> first = write(folder / "last.checkpoint", 1);
  fs::create_hard_link(folder / "last.checkpoint", folder / "best.checkpoint");
  const std::vector<std::string> second = write(folder / "last.checkpoint", 2), killed = write(folder / "unnamed", 3);
  folder.write("parts/notes.txt", "not ours");
  folder.write("parts/." + killed[0] + ".tandem-1-0", "half a part");
  const auto there = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(parts)) names.insert(entry.path().filename());
    return names;
  };
  remove_unnamed_parts(folder.text());
  EXPECT_EQ(there(), (std::set<std::string>{first[0], first[1], second[0], second[1], "notes.txt"}));
  fs::remove(folder / "best.checkpoint");
  remove_unnamed_parts(folder.text());
  EXPECT_EQ(there(), (std::set<std::string>{second[0], second[1], "notes.txt"}));
  folder.write("last.checkpoint", "damaged");
  folder.write("parts/." + killed[0] + ".tandem-1-0", "half a part");
  fs::remove(parts / "notes.txt");
  remove_unnamed_parts(folder.text());
  EXPECT_FALSE(fs::exists(parts));
}

}  // namespace
}  // namespace tandem
