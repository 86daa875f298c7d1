// Softmax, losses and metrics.
#include "tests/cuda/cases/rows.h"

namespace tandem::cuda::cases {
namespace {

const CaseRow loss_rows[] = {
    {"softmax", [](std::mt19937& r) { auto c = unary(r, "Softmax", {{"axis", std::int64_t{1}}}); c.terms = 64; return c; }, {DType::float32, DType::float64, DType::float16, DType::bfloat16}},
    {"log softmax", [](std::mt19937& r) { auto c = unary(r, "LogSoftmax", {{"axis", std::int64_t{-1}}}); c.terms = 64; return c; }},
    {"log softmax of large numbers",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 5), between(r, 2, 200)};
       return Comparison{"LogSoftmax", {{"axis", std::int64_t{1}}}, {random_tensor(r, s, 10000, 10004)}, {real(s)}, s[1]};
     },
     {DType::float32, DType::float64},
     {"ab"}},
    {"cross-entropy of large numbers",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 150)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.125F}},
                         {random_tensor(r, s, 10000, 10004), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::float32},
     {"ab"}},
    {"softmax of long rows",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 5), between(r, 65, 300)};
       return Comparison{"Softmax", {{"axis", std::int64_t{1}}}, {random_tensor(r, s)}, {real(s)}, s[1]};
     },
     {DType::float32, DType::float64, DType::float16},
     {"ab"}},
    {"cross-entropy of classes",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 150)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.125F}},
                         {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::float32, DType::float64},
     {"ab"}},
    {"cross-entropy of long rows in 16 bits",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 5), between(r, 200, 1200)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.125F}},
                         {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::bfloat16, DType::float16},
     {"ab"}},
    {"cross-entropy, some ignored",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 9)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.5F}, {"ignore_index", std::int64_t{1}}},
                         {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::float32},
     {"ab"}},
    {"cross-entropy, a label that is no class",
     [](std::mt19937& r) {
       const Shape s{3, between(r, 2, 9)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.5F}},
                         {random_tensor(r, s), random_integers(r, {3}, s[1], s[1] + 2)},
                         {real({}), real(s)},
                         s[1]};
     },
     {DType::float32},
     {"ab"}},
    {"cross-entropy of dense labels",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 40)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.5F}},
                         {random_tensor(r, s), random_tensor(r, s, 0, 1)},
                         {real({}), real(s)},
                         s[1] * s[1] * s[0]};
     },
     {DType::float32, DType::float64},
     {"ab"}},
    {"negative log likelihood, mean",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 4), between(r, 2, 9), between(r, 1, 5)};
       return Comparison{"NegativeLogLikelihoodLoss",
                         {{"reduction", std::string("mean")}, {"ignore_index", std::int64_t{1}}},
                         {random_tensor(r, s, -4, 0), random_integers(r, {s[0], s[2]}, 0, s[1]), random_tensor(r, {s[1]}, 0.5, 2)},
                         {real({})},
                         64};
     },
     {DType::float32, DType::float64},
     {"abc"}},
    {"negative log likelihood, each",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 4), between(r, 2, 9), between(r, 1, 5)};
       return Comparison{"NegativeLogLikelihoodLoss",
                         {{"reduction", std::string("none")}},
                         {random_tensor(r, s, -4, 0), random_integers(r, {s[0], s[2]}, 0, s[1])},
                         {real({s[0], s[2]})}};
     },
     {DType::float32},
     {"abc"}},
    {"negative log likelihood backward",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 4), between(r, 2, 9), between(r, 1, 5)};
       return Comparison{"NegativeLogLikelihoodLossBackward",
                         {{"reduction", std::string("mean")}, {"input_shape", s.dims}},
                         {random_tensor(r, {}), random_integers(r, {s[0], s[2]}, 0, s[1]), random_tensor(r, {s[1]}, 0.5, 2)},
                         {real(s)},
                         64};
     },
     {DType::float32, DType::float64},
     {"abc"}},
    {"count of the correct of long rows",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 60), between(r, 5, 60)};
       return Comparison{"CountCorrect", {}, {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])}, {{DType::float32, {}}}};
     },
     {DType::float32, DType::bfloat16},
     {"ab"}},
    {"count of the correct",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 40), between(r, 2, 5)};
       return Comparison{"CountCorrect", {}, {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])}, {{DType::float32, {}}}};
     },
     {DType::float32},
     {"ab"}},
    {"count of the correct among dense labels",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 40), between(r, 2, 5)};
       return Comparison{"CountCorrect", {}, {random_tensor(r, s), random_tensor(r, s)}, {{DType::float32, {}}}};
     },
     {DType::float32},
     {"ab"}},
};

}  // namespace

std::vector<CaseRow> losses() { return list(loss_rows); }

}  // namespace tandem::cuda::cases
