// Values and axes of a model's inputs as options and a trained file's metadata write them: "temp=0.5,pos=0|1|2|3" and "h0=1".
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace tandem {

// INPUT=VALUE: a number, numbers separated by |, or an .npy file. Fails (usage, data, io) naming `what`.
std::map<std::string, Tensor> parse_constants(const std::vector<std::string>& list, std::string_view what);
// What parse_constants reads; values of more than 1000 numbers are left out.
std::string text_of_constants(const std::map<std::string, Tensor>& constants);

// INPUT=AXIS, or INPUT=none for one that holds no samples.
std::map<std::string, int> parse_axes(const std::vector<std::string>& list, std::string_view what);
std::string text_of_axes(const std::map<std::string, int>& axes);

}  // namespace tandem
