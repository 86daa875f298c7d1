// What `tandem predict` writes: arrays of numpy, or a table of CSV with the classes' names and probabilities.
#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"
#include "runtime/session.h"

namespace tandem {

struct Probabilities {
  std::vector<double> values;  // [samples, classes], row-major
  std::int64_t classes = 0;
  std::string how;             // as what the output was read: "probabilities", "logarithms of probabilities", "scores, by softmax"
};
// Of an output [samples, classes] of floats, at least two classes. Its values tell what they are: rows of 0 to 1 whose sum is 1 are
// probabilities, rows that are so behind exp their logarithms, others scores. Rows of NaN stay so. Fails (usage) on another type.
Probabilities probabilities_of(const Tensor& output);

// A sample of image files by its file, another by its number.
std::string sample_name(const Dataset& data, std::int64_t sample);

// Whether a path names a kind of file that predictions are written to: .npy, .npz or .csv.
bool is_predictions_file(const std::string& path);

// .npy: the first result; .npz: all, by name; .csv: a row a sample. `classes`: of the first result's columns, empty where it
// is no classifier's. With classes a row has sample, class, probability and the probability of each class, else the first
// result's numbers.
void write_predictions(const std::string& path, const std::vector<NamedTensor>& results, const Dataset& data,
                       const std::vector<std::string>& classes);

}  // namespace tandem
