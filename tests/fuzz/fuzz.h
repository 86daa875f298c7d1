// What the fuzz targets have in common. A target is libFuzzer's LLVMFuzzerTestOneInput with a mutator that knows the format:
// bytes alone rarely get past a parser. It is linked with libFuzzer (clang) or with driver.cpp (any compiler).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Of libFuzzer or of driver.cpp: changes bytes at random; returns how many there are now, at most `room`.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

namespace tandem::fuzz {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return n ? engine_() % n : 0; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List>
  auto& of(List&& list) { return list[below(std::size(list))]; }

 private:
  std::minstd_rand engine_;
};

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
// Changed bytes as a mutator gives them back; those that do not fit are cut.
std::size_t give(const std::string& text, std::uint8_t* data, std::size_t room);

// An Error is a right answer to any bytes. Whatever else is thrown is a finding.
template <class Action>
int run(Action&& action) {
  try {
    action();
  } catch (const Error&) {
  }
  return 0;
}

// Files of this process, in memory where the system has such a place; gone when it ends.
const std::filesystem::path& folder();
std::filesystem::path write(const std::string& name, std::string_view bytes);

// Bytes as libFuzzer changes them.
void mutate_bytes(std::string& bytes, Random& random);
// Numbers, quoted words and pieces of a text (JSON, Python) replaced, exchanged, repeated or left out.
void mutate_text(std::string& text, Random& random);
// A protobuf message, of any schema: fields left out, blanked, repeated, exchanged, set to values at the limits or to what
// stands in another field of their kind, in this message or in `other`. `words` are tried as texts.
void mutate_message(std::string& message, const std::string& other, std::span<const std::string> words, Random& random);
// An array file: its header as a text, or its elements.
void mutate_npy(std::string& bytes, Random& random);
// A zip archive: members left out, renamed, exchanged, or changed by `mutate`; written anew so that all its sums are right.
// Bytes that are no archive, and one in four that are, are changed as bytes.
using MutateMember = std::function<void(const std::string& name, std::string& contents, Random& random)>;
void mutate_zip(std::string& bytes, const MutateMember& mutate, Random& random);

}  // namespace tandem::fuzz
