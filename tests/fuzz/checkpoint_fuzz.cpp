// Any bytes as a run's last checkpoint: read, and where it is one of `small_run`'s, taken up for what is left of `steps` steps.
#include "kernels/cpu/backend.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_run.h"
#include "trainer/checkpoint.h"

namespace tandem::fuzz {
namespace {

void mutate_member(const std::string& name, std::string& contents, Random& random) {
  name.ends_with(".npy") ? mutate_npy(contents, random) : mutate_text(contents, random);
}

// The last bytes of the archive's comment are a checksum over all before it: cut off, the archive is written anew with
// a right one, which is what mutate_zip does. Bytes changed as bytes keep a wrong one.
std::size_t mutate(std::string checkpoint, std::uint8_t* data, std::size_t room, unsigned seed) {
  Random random(seed);
  mutate_zip(checkpoint, mutate_member, random);
  return give(checkpoint, data, room);
}

}  // namespace
}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  static fuzz::SmallRun run(fuzz::folder() / "run");
  return fuzz::run([&] {
    fuzz::write("run/last.checkpoint", fuzz::text_of(data, size));
    std::error_code none;
    std::filesystem::remove(fuzz::folder() / "run/previous.checkpoint", none);
    read_checkpoint(fuzz::folder() / "run/last.checkpoint");
    run.go_on();
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  return tandem::fuzz::mutate(tandem::fuzz::text_of(data, size), data, room, seed);
}
