// What an evaluation measured, as commands print it.
#pragma once
#include <string>
#include <vector>

#include "trainer/reports.h"

namespace tandem {

// Readable in 60 columns; each output's classes where `metrics` has per-class, its matrix where it has confusion.
std::string text_of(const Evaluation& e, const std::vector<std::string>& metrics);

}  // namespace tandem
