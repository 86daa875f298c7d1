#include "base/space.h"

#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

TEST(Space, OfAFileSystemIsSharedByAllThatGoesThere) {
  const TemporaryFolder folder;
  const auto free = static_cast<std::int64_t>(std::filesystem::space(folder / ".").available);
  const auto check = [&](std::int64_t model, std::int64_t checkpoint, int files) {
    const WrittenLater list[] = {{"the model", folder / "new/o.onnx", model}, {"a checkpoint", folder / "run/last", checkpoint, files}};
    check_space(list);
  };
  EXPECT_NO_THROW(check(free / 4, free / 8, 3));
  expect_error(ExitCode::io, "o.onnx: the model (", [&] { check(2 * free, 0, 1); });
  expect_error(ExitCode::io, "last: a checkpoint (3 of ", [&] { check(0, free / 2, 3); });
  expect_error(ExitCode::io, "last: a checkpoint (", [&] { check(3 * (free / 4), 3 * (free / 4), 1); });
}

TEST(Space, IsThatOfTheNearestFolderThatIsThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(nearest_folder(folder / "a/b/c"), std::filesystem::path(folder.text()));
  EXPECT_EQ(nearest_folder(folder / "a"), std::filesystem::path(folder.text()));
}

}  // namespace
}  // namespace tandem
