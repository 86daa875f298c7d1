#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Files = std::set<std::string>;

Files files_in(const fs::path& folder) {
  Files names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(AtomicFiles, OfKilledProcessesGoWithTheNextOfThatName) {
  const TemporaryFolder folder;
  for (const char* name :
       {".a.tandem-1-0", ".a.tandem-77-3", ".b.tandem-1-0", ".a.tandem-", ".a.tandem-1", ".a.tandem-1-x", "a.tandem-1-0", ".tandem-1-0"})
    folder.write(name, "half");
  ASSERT_EQ(mkfifo((folder / ".a.tandem-2-0").c_str(), 0600), 0);
  fs::create_symlink("b", folder / ".a.tandem-3-0");
  AtomicFile(folder.text(), "a").commit();
  const Files others{".a.tandem-", ".a.tandem-1", ".a.tandem-1-x", "a.tandem-1-0", ".tandem-1-0", ".a.tandem-2-0", ".a.tandem-3-0", "a"};
  Files with_b = others;
  with_b.insert(".b.tandem-1-0");
  EXPECT_EQ(files_in(folder.text()), with_b);
  remove_abandoned_files(folder.text());
  EXPECT_EQ(files_in(folder.text()), others);
}

// A lock tells them apart, not a process's number: that may live on another machine, or in another container.
TEST(AtomicFiles, OfLivingProcessesStay) {
  const TemporaryFolder folder;
  AtomicFile first(folder.text(), "a"), second(folder.text(), "a");
  EXPECT_EQ(files_in(folder.text()).size(), 2u);
  remove_abandoned_files(folder.text());
  first.write("first", 5, 0);
  second.write("second", 6, 0);
  second.commit();
  first.commit();
  EXPECT_EQ(contents(folder / "a"), "first");
  EXPECT_EQ(files_in(folder.text()), Files{"a"});
}

TEST(AtomicFiles, AppendGoesOnBehindWhatWasWritten) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.append("ab");
  file.write("xyz", 3, 4);
  file.append("!");
  EXPECT_EQ(files_in(folder.text()).count("a"), 0U) << "no name before it is whole";
  file.commit();
  EXPECT_EQ(contents(folder / "a"), std::string("ab\0\0xyz!", 8));
}

TEST(AtomicFiles, OnlyRegularFilesAreReplaced) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link");
  expect_error(ExitCode::io, "/folder: is a folder, expected a file's name", [&] { write_atomically(folder / "folder", "x"); });
  for (const char* name : {"pipe", "link"})
    expect_error(ExitCode::io, "is a device or a pipe, expected a regular file's name", [&] { write_atomically(folder / name, "x"); });
  expect_error(ExitCode::io, "it has no file name", [&] { write_atomically(folder / "", "x"); });
  EXPECT_EQ(files_in(folder.text()), (Files{"folder", "pipe", "link"}));
}

// Threads have locks of their own, as processes do.
TEST(FileLocks, NoneLosesWhatAnotherHasWritten) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a";
  constexpr int writers = 4, times = 25;
  std::vector<std::jthread> threads;
  for (int w = 0; w < writers; ++w)
    threads.emplace_back([&] {
      for (int i = 0; i < times; ++i) {
        const FileLock lock(path);
        write_atomically(path, contents(path) + '.');
      }
    });
  threads.clear();
  EXPECT_EQ(contents(path).size(), static_cast<std::size_t>(writers * times));
}

// A file's name may have 255 bytes; the temporary's is made of it, and a killed process's goes with the next all the same.
TEST(AtomicFiles, NamesMayBeAsLongAsTheyCanBe) {
  for (const std::string& name :
       {std::string(255, 'n'), std::string(231, 'n'), std::string("k\u00e4") + std::string(126, 'x') + std::string(126, 'y')}) {
    const TemporaryFolder folder;
    std::string left;
    {
      AtomicFile file(folder.text(), name);
      left = *files_in(folder.text()).begin();
    }
    EXPECT_LE(left.size(), 255u);
    folder.write(left, "half");
    AtomicFile(folder.text(), name).commit();
    EXPECT_EQ(files_in(folder.text()), Files{name});
    const FileLock lock(folder / name);
    EXPECT_EQ(files_in(folder.text()).size(), 2u) << "with the lock's file";
  }
  const TemporaryFolder folder;
  expect_error(ExitCode::io, "File name too long", [&] { AtomicFile(folder.text(), std::string(256, 'n')); });
  EXPECT_EQ(name_beside("a.onnx", ".data"), "a.onnx.data");
  EXPECT_EQ(name_beside(std::string(255, 'a'), ".data").size(), 255u);
  EXPECT_NE(name_beside(std::string(255, 'a'), ".data"), name_beside(std::string(254, 'a') + 'b', ".data"));
  EXPECT_EQ(path_beside("out/a.onnx", ".last.onnx"), "out/a.last.onnx");
}

}  // namespace
}  // namespace tandem
