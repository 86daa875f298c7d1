// Every data file that the trainer reads, a row each: where it lies, what lies beside it, and a sound one to begin with.
#pragma once
#include <span>
#include <string>

namespace tandem::fuzz {

enum class Coding { npy, zip, gzip, plain };  // how a mutation gets behind the file's sums and lengths

struct DataFormat {
  std::string name;    // of its folder
  std::string source;  // as in --data SOURCE:PATH; empty: a single array for prediction
  std::string file;
  Coding coding;
  std::string sound;
  std::string beside, beside_contents;  // another file that belongs to it
};
std::span<const DataFormat> data_formats();

std::string gzip(const std::string& contents);

}  // namespace tandem::fuzz
