// Any bytes as a run's last checkpoint: read, and where it is one of `small_run`'s, or an index of the parts of one, taken up for what is
// left of `steps` steps.
#include <zlib.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "kernels/cpu/backend.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_run.h"
#include "trainer/checkpoint.h"

namespace tandem::fuzz {
namespace {

void mutate_member(const std::string& name, std::string& contents, Random& random) {
  name.ends_with(".npy") ? mutate_npy(contents, random) : mutate_text(contents, random);
}

// Of an index: what it says of its parts, a JSON text in the header's.
void mutate_parts(std::string& header, Random& random) {
  Json::Object metadata = Json::parse(header).at("__metadata__").object();
  for (auto& [key, value] : metadata) {
    if (key != "parts") continue;
    std::string text = value.text();
    mutate_text(text, random);
    value = text;
  }
  header = Json(Json::Object{{"__metadata__", std::move(metadata)}}).dump();
}

// The header's text, or the tensors' bytes; its length and the checksum are then made right again.
void mutate_checkpoint(std::string& checkpoint, Random& random) {
  constexpr std::string_view before_sum = "\"crc32\":\"";
  std::uint64_t length = 0;
  if (checkpoint.size() > sizeof length) std::memcpy(&length, checkpoint.data(), sizeof length);
  if (random.one_in(4) || length == 0 || length > checkpoint.size() - sizeof length) return mutate_bytes(checkpoint, random);
  std::string header = checkpoint.substr(sizeof length, length), data = checkpoint.substr(sizeof length + length);
  const bool is_index = data.empty() && header.find("\"parts\":") != std::string::npos;
  if (is_index && random.one_in(2)) {
    run([&] { mutate_parts(header, random); });
  } else {
    random.one_in(4) ? mutate_bytes(data, random) : mutate_text(header, random);
  }
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

// A run whose folder has parts of its checkpoint, too, for each input: a run that goes on removes them.
class RunWithParts {
 public:
  RunWithParts() : run_(folder() / "run") {
    for (const std::string& name : write_in_parts(folder() / "run/last.checkpoint", folder() / "run/index"))
      parts_.emplace_back("run/parts/" + name, read_file(folder() / "run/parts" / name));
  }
  void begin() const {
    for (const auto& [name, bytes] : parts_)
      if (!std::filesystem::exists(folder() / name)) write(name, bytes);
  }
  void go_on() { run_.go_on(); }

 private:
  SmallRun run_;
  std::vector<std::pair<std::string, std::string>> parts_;
};

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
  static fuzz::RunWithParts run;
  return fuzz::run([&] {
    run.begin();
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
