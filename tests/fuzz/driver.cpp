// libFuzzer's place in builds without it, such as preset asan: the same targets and mutators, the inputs chosen blindly. Takes
// libFuzzer's options -max_total_time, -runs, -seed, -timeout, -max_len and -artifact_prefix, and files and folders. Files and those of the
// first folder are run as they are; those of all folders are then changed. An input that ends the program is kept as
// ARTIFACT_PREFIXcrash-HASH, one that takes too long as ...timeout-HASH.
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "base/hash.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed);
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data, std::size_t size,
                                                                       const std::uint8_t* other, std::size_t other_size, std::uint8_t* out,
                                                                       std::size_t room, unsigned seed);
extern "C" const char* __asan_default_options() {
  return "handle_abort=1:max_allocation_size_mb=2048:detect_stack_use_after_return=0";
}

namespace {

using Bytes = std::vector<std::uint8_t>;
tandem::fuzz::Random shared_random(0);
std::string prefix = "./";
Bytes current;

// Called where nothing may be relied on any more.
void keep(const char* what) {
  tandem::Hash hash;
  hash.add(std::as_bytes(std::span(current)));
  char name[4096];
  std::snprintf(name, sizeof name, "%s%s-%s", prefix.c_str(), what, hash.text().c_str());
  if (FILE* file = std::fopen(name, "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "The input is kept as %s\n", name);
}

int timeout = 60;
void run(const Bytes& input) {
  current = input;
  alarm(static_cast<unsigned>(timeout));
  // A copy of just this size, so that a byte read past it is seen.
  const Bytes exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  alarm(0);
}

Bytes read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return {text.begin(), text.end()};
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room) {
  constexpr std::uint8_t limits[] = {0, 1, 2, 0x10, 0x7F, 0x80, 0xFE, 0xFF};
  tandem::fuzz::Random& random = shared_random;
  for (std::size_t n = 1 + random.below(3); n > 0; --n) {
    const std::size_t at = random.below(size);
    switch (size == 0 ? 4 : random.below(5)) {
      case 0: data[at] ^= static_cast<std::uint8_t>(1U << random.below(8)); break;
      case 1: data[at] = random.one_in(2) ? limits[random.below(std::size(limits))] : static_cast<std::uint8_t>(random.below(256)); break;
      case 2: data[at] = data[random.below(size)]; break;
      case 3: {
        const std::size_t count = std::min(size - at, 1 + random.below(random.one_in(4) ? size : 8));
        std::memmove(data + at, data + at + count, size - at - count);
        size -= count;
        break;
      }
      default:
        if (size == room) break;
        std::memmove(data + at + 1, data + at, size - at);
        data[at] = static_cast<std::uint8_t>(random.below(256));
        ++size;
    }
  }
  return size;
}

int main(int argc, char** argv) {
  std::map<std::string, std::string> options{{"max_total_time", "0"}, {"runs", "-1"},       {"seed", "0"},
                                             {"timeout", "60"},       {"max_len", "65536"}, {"artifact_prefix", "./"}};
  std::vector<Bytes> corpus;
  std::size_t as_they_are = 0;  // of the corpus, the first
  bool folders = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("-")) {
      const std::size_t equals = std::min(argument.find('='), argument.size() - 1);
      options[argument.substr(1, equals - 1)] = argument.substr(equals + 1);
      continue;
    }
    std::vector<std::filesystem::path> files;
    const bool folder = std::filesystem::is_directory(argument);
    if (folder)
      for (const auto& entry : std::filesystem::directory_iterator(argument)) files.push_back(entry.path());
    else
      files.emplace_back(argument);
    std::sort(files.begin(), files.end());  // the same order in every run of a seed
    for (const auto& file : files) corpus.push_back(read(file));
    if (!folders) as_they_are = corpus.size();
    folders = folders || folder;
  }
  const auto number = [&](const char* name) { return std::strtoll(options[name].c_str(), nullptr, 10); };
  const auto room = static_cast<std::size_t>(number("max_len"));
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  unsigned seed = static_cast<unsigned>(number("seed"));
  if (seed == 0) seed = std::random_device()();
  shared_random = tandem::fuzz::Random(seed);
  prefix = options["artifact_prefix"];
  timeout = static_cast<int>(number("timeout"));
  __sanitizer_set_death_callback([] { keep("crash"); });
  signal(SIGALRM, [](int) { keep("timeout"); _exit(70); });

  for (std::size_t i = 0; i < as_they_are; ++i) run(corpus[i]);
  std::fprintf(stderr, "seed %u: %zu inputs run in %.1f s, %zu to change\n", seed, as_they_are, seconds(), corpus.size());
  auto runs = static_cast<long long>(as_they_are);
  if (!folders) return 0;
  if (corpus.empty()) corpus.emplace_back();
  while ((number("max_total_time") == 0 || seconds() < static_cast<double>(number("max_total_time"))) &&
         (number("runs") < 0 || runs < number("runs"))) {
    Bytes input = shared_random.of(corpus);
    for (std::size_t n = 1 + shared_random.below(3); n > 0; --n) {
      const std::size_t size = input.size();
      const auto next = static_cast<unsigned>(shared_random.below(1U << 30));
      input.resize(std::max(room, size));
      if (LLVMFuzzerCustomCrossOver && shared_random.one_in(3)) {
        const Bytes& other = shared_random.of(corpus);
        const Bytes one(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size));
        input.resize(LLVMFuzzerCustomCrossOver(one.data(), one.size(), other.data(), other.size(), input.data(), room, next));
      } else {
        input.resize(LLVMFuzzerCustomMutator(input.data(), size, room, next));
      }
    }
    run(input);
    ++runs;
  }
  std::fprintf(stderr, "%lld runs in %.0f s, %.0f a second, no finding\n", runs, seconds(), static_cast<double>(runs) / seconds());
  return 0;
}
