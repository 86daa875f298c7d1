// Options in messages. The library names an option as its API does, "option loss_on"; a program that has another word for it, a
// flag, says so before it calls the library. A message is made with the word in it: no text is ever looked through for one, so
// what users call their files and values stays as it is.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

// "option loss_on": a field of CompileOptions, ModelOptions, WeightOptions, SaveOptions or FitOptions.
std::string option(std::string_view field);
// "ModelFile::tensors()": what the API offers as a function.
std::string function(std::string_view name);

// A program's words, empty where it has none. They hold while an object of this kind lives, in the whole process: of several
// the newest counts.
class OptionWords {
 public:
  using Words = std::string (*)(std::string_view name);
  explicit OptionWords(Words words);
  ~OptionWords();
  OptionWords(const OptionWords&) = delete;
  OptionWords& operator=(const OptionWords&) = delete;

 private:
  const Words before_;
};

}  // namespace tandem
