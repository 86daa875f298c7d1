// A model that another one learns from: its graph, in inference, on the inputs of the one that trains.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "importer/model_file.h"

namespace tandem {

class Teacher {
 public:
  // Its inputs are the model's by name; where not all names are there, and there are as many, by their places. Fails (usage) else.
  // Both outlive it.
  Teacher(std::string path, const ModelFile& file, const Graph& model);
  // Puts it beside the model; its scores become the value teacher_scores, those of the output that goes by the student's name, or
  // of the first of floats. Fails (usage) where types or shapes differ.
  void attach(Graph& model, ValueId student, std::int64_t samples, const std::map<std::string, std::int64_t>& dims,
              const std::string& prefix) const;
  // What was not found by name: "teacher.onnx: its inputs are the model's by their places: 'image' is 'x'", and which of several
  // outputs are the scores where none goes by the name of `student`. Empty: nothing.
  std::string text(const std::string& student) const;

 private:
  std::string path_;
  const ModelFile& file_;
  std::map<std::string, std::string> inputs_;  // of the teacher: the model's
  bool by_place_ = false;
};

}  // namespace tandem
