// The losses there are, one row each: what labels they take, and how the graphs of training and of evaluation compute them. Gradients
// come of the operators they are composed of.
#pragma once
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/operator.h"

namespace tandem {

// One loss of LossOptions::name, which reads [OUTPUT=]LOSS[:PARAMETER=X]...[*WEIGHT], several separated by commas. LOSS is a
// row's name or a file's, which ends in ".onnx".
struct LossTerm {
  std::string loss;    // a row's name
  std::string output;  // the model's value; empty: as LossOptions::on says. "a+b+c": of triplet, three values
  double weight = 1;   // in the total
  std::string file;    // that computes it; loss is then file_loss
  std::map<std::string, double, std::less<>> parameters;  // those that were given
};
// Keras's and PyTorch's names are understood. Fails (usage) on what is unknown, naming the nearest; where several terms do not
// say which output each is of; where two are of one output.
std::vector<LossTerm> parse_loss(std::string_view text);

// What a sample's labels are.
enum class LabelKind {
  classes,  // an index at each place, or a number for each class
  shares,   // a number for each class
  binary,   // yes or no: an index where the value has one element, else numbers
  numbers,  // as the value has them
  sequence, // a row of class indices, padded
  none,     // the loss takes no labels
};
// What a row's functions see at a time.
enum class LossOver {
  elements,  // each element by itself; a sample's loss is their mean
  classes,   // the classes of a place; a sample's loss is the places' mean
  last,      // the last axis; a sample's loss is the mean over the others
  sample,    // a sample at once
  sequence,  // all of a sample: places by classes, and its labels
  batch,     // the value is the loss
};

inline constexpr std::string_view file_loss = "FILE.onnx";  // the row of losses that files compute
// Whoever gives the model's graph has put there what a file computes: a value of the role file_loss.

struct LossParameter {
  std::string_view name;
  double value;  // unless given
};

struct LossRow;
// The parameters of a loss, those not given as its row has them.
class LossValues {
 public:
  LossValues(const LossRow& row, const std::map<std::string, double, std::less<>>& given) : row_(row), given_(given) {}
  double operator[](std::string_view name) const;

 private:
  const LossRow& row_;
  const std::map<std::string, double, std::less<>>& given_;
};

struct LossRow {
  std::string_view name;
  std::string_view others;  // its names elsewhere, small letters and digits alone, separated by blanks
  std::string_view help;    // its formula
  LabelKind labels;
  LossOver over;
  OutputKind scores;  // it is computed of what went into a last operator that makes these; softmax: logarithmic ones, too
  double low, high;   // of labels that are numbers
  std::vector<LossParameter> parameters;
  // Of x and t of one shape (elements), of [N,T,C] and [N,S] to [N] (sequence), or as rows [M,C] to [M] (else; t is absent where
  // there are no labels).
  ValueId (*build)(GraphBuilder&, ValueId x, ValueId t, const LossValues&);
  std::string_view robust{};  // a loss of such labels with bounded gradients, where this one's grow with its labels
};

std::span<const LossRow> loss_rows();
const LossRow& loss_row(std::string_view name);  // of a row's name; an internal error where there is none
std::string loss_names();                        // "softmax-cross-entropy, mse, ..."

}  // namespace tandem
