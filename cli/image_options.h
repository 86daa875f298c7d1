// How data reaches the model beside --normalize: --resize, --workers, --on-bad-sample; and what is known only once the data
// is open.
#pragma once
#include "cli/command.h"
#include "trainer/model.h"

namespace tandem {

// Reads them; --resize, where it is not given, as the file says its training did, with a line.
void read_image_options(const Invocation& call, const Model& model, Preprocess& preprocess);
// Measures what --normalize auto asks for and says how image files are brought to the model's size.
void settle_preparation(const Invocation& call, const Dataset& data, const DataRequest& request, Preprocess& preprocess);
// What was left out by --on-bad-sample skip, at the end, and what became of one, or of several.
void tell_bad_samples(const Invocation& call, const Preprocess& preprocess, std::string_view one = "had its place taken by another",
                      std::string_view several = "had their places taken by others");

}  // namespace tandem
