// Any bytes as a run's last checkpoint: read, and where it is one of `small_run`'s, taken up for what is left of `steps` steps.
#include <zlib.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "kernels/cpu/backend.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_run.h"
#include "trainer/checkpoint.h"

namespace tandem::fuzz {
namespace {

void mutate_member(const std::string& name, std::string& contents, Random& random) {
  name.ends_with(".npy") ? mutate_npy(contents, random) : mutate_text(contents, random);
}

// The header's text, or the tensors' bytes; its length and the checksum are then made right again.
void mutate_checkpoint(std::string& checkpoint, Random& random) {
  constexpr std::string_view before_sum = "\"crc32\":\"";
  std::uint64_t length = 0;
  if (checkpoint.size() > sizeof length) std::memcpy(&length, checkpoint.data(), sizeof length);
  if (random.one_in(4) || length == 0 || length > checkpoint.size() - sizeof length) return mutate_bytes(checkpoint, random);
  std::string header = checkpoint.substr(sizeof length, length), data = checkpoint.substr(sizeof length + length);
  random.one_in(4) ? mutate_bytes(data, random) : mutate_text(header, random);
  length = header.size();
  checkpoint.assign(reinterpret_cast<const char*>(&length), sizeof length);
  checkpoint += header + data;
  const std::size_t sum = checkpoint.find(before_sum);
  if (sum == std::string::npos || sum + before_sum.size() + 8 > checkpoint.size()) return;
  checkpoint.replace(sum + before_sum.size(), 8, "00000000");
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08lx", crc32_z(0, reinterpret_cast<const Bytef*>(checkpoint.data()), checkpoint.size()));
  checkpoint.replace(sum + before_sum.size(), 8, text.data());
}

// Of the former form the last bytes of the archive's comment are a checksum over all before it, which mutate_zip makes right.
std::size_t mutate(std::string checkpoint, std::uint8_t* data, std::size_t room, unsigned seed) {
  Random random(seed);
  checkpoint.starts_with("PK") ? mutate_zip(checkpoint, mutate_member, random) : mutate_checkpoint(checkpoint, random);
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
