// Which columns of a table (CSV, JSON lines, Parquet) become which fields: as a data set's options say, else by rules that are
// told in a note:
//   x=a,b,c     the columns of the only input; INPUT=a,b of the input of that name; else columns named as inputs, else the one of images,
//   else all others y=d         the labels (several columns: one label each of so many numbers); y.NAME=d: labels called NAME, of several;
//               else a column named label, target, class, cls or y, else the last one
//   weight=w    how much a sample counts; else a column named sample_weight
// A model's input that goes by the name of a mask or of lengths and has no column is made from the lengths of an input's lists.
#pragma once
#include <string>
#include <vector>

#include "base/spec.h"
#include "data/dataset.h"

namespace tandem {

// What of a list fills an input that no column holds: 1 where the list has numbers and 0 where it was filled up, the other way round,
// or how many numbers it has.
enum class OfLengths { none, mask, padding_mask, length };

struct ColumnField {
  std::string name;
  Role role = Role::input;
  std::vector<std::size_t> columns;  // of the table
  TensorType wanted{DType::undefined, {}};  // by the model; undefined: not known
  OfLengths of_lengths = OfLengths::none;   // of the only column
};

// Fails (usage) on a column that is not there, naming the nearest; (data) where an input has none.
std::vector<ColumnField> choose_columns(const Spec& spec, const DataRequest& request, const std::vector<std::string>& columns,
                                        const std::vector<bool>& images, const std::string& file, std::vector<std::string>& notes);
// Fails (usage) on options that are neither those above nor in `others`. `constants`: inputs without samples may be named, too.
void allow_columns(const Spec& spec, const DataRequest& request, std::vector<std::string> others, bool constants = false);

}  // namespace tandem
