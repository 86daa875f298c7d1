#include "importer/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;
using Files = std::set<std::string>;

Files files_in(const fs::path& folder) {
  Files names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

TEST(AtomicFiles, OfKilledProcessesGoWithTheNextOfThatName) {
  const TemporaryFolder folder;
  for (const char* name : {".a.tandem-1-0", ".a.tandem-77-3", ".b.tandem-1-0", ".a.tandem-", ".a.tandem-1", ".a.tandem-1-x", "a.tandem-1-0", ".tandem-1-0"})
    write_file(folder / name, "half");
  ASSERT_EQ(mkfifo((folder / ".a.tandem-2-0").c_str(), 0600), 0);
  fs::create_symlink("b", folder / ".a.tandem-3-0");
  AtomicFile(folder.path(), "a").commit();
  const Files others{".a.tandem-", ".a.tandem-1", ".a.tandem-1-x", "a.tandem-1-0", ".tandem-1-0", ".a.tandem-2-0", ".a.tandem-3-0", "a"};
  Files with_b = others;
  with_b.insert(".b.tandem-1-0");
  EXPECT_EQ(files_in(folder.path()), with_b);
  remove_abandoned_files(folder.path());
  EXPECT_EQ(files_in(folder.path()), others);
}

// A lock tells them apart, not a process's number: that may live on another machine, or in another container.
TEST(AtomicFiles, OfLivingProcessesStay) {
  const TemporaryFolder folder;
  AtomicFile first(folder.path(), "a"), second(folder.path(), "a");
  EXPECT_EQ(files_in(folder.path()).size(), 2u);
  remove_abandoned_files(folder.path());
  first.write("first", 5, 0);
  second.write("second", 6, 0);
  second.commit();
  first.commit();
  EXPECT_EQ(read_whole(folder / "a"), "first");
  EXPECT_EQ(files_in(folder.path()), Files{"a"});
}

}  // namespace
}  // namespace tandem::test
