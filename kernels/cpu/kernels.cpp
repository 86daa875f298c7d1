#include "kernels/cpu/kernels.h"

namespace tandem {
namespace {

constexpr CpuKernelRow rows[] = {
    // Elementwise
    {"Abs", "native.elementwise", native::describe_elementwise},
    {"Add", "native.elementwise", native::describe_elementwise},
    {"And", "native.elementwise", native::describe_elementwise},
    {"Cast", "native.elementwise", native::describe_elementwise},
    {"Ceil", "native.elementwise", native::describe_elementwise},
    {"Clip", "native.elementwise", native::describe_elementwise},
    {"ClipBackward", "native.elementwise", native::describe_elementwise},
    {"Cos", "native.elementwise", native::describe_elementwise},
    {"Div", "native.elementwise", native::describe_elementwise},
    {"Elementwise", "native.elementwise", native::describe_elementwise},
    {"Elu", "native.elementwise", native::describe_elementwise},
    {"EluBackward", "native.elementwise", native::describe_elementwise},
    {"Equal", "native.elementwise", native::describe_elementwise},
    {"Erf", "native.elementwise", native::describe_elementwise},
    {"Exp", "native.elementwise", native::describe_elementwise},
    {"Floor", "native.elementwise", native::describe_elementwise},
    {"Greater", "native.elementwise", native::describe_elementwise},
    {"GreaterOrEqual", "native.elementwise", native::describe_elementwise},
    {"HardSigmoid", "native.elementwise", native::describe_elementwise},
    {"HardSigmoidBackward", "native.elementwise", native::describe_elementwise},
    {"Identity", "native.elementwise", native::describe_elementwise},
    {"LeakyRelu", "native.elementwise", native::describe_elementwise},
    {"LeakyReluBackward", "native.elementwise", native::describe_elementwise},
    {"Less", "native.elementwise", native::describe_elementwise},
    {"LessOrEqual", "native.elementwise", native::describe_elementwise},
    {"Log", "native.elementwise", native::describe_elementwise},
    {"Max", "native.elementwise", native::describe_elementwise},
    {"Min", "native.elementwise", native::describe_elementwise},
    {"Mul", "native.elementwise", native::describe_elementwise},
    {"Neg", "native.elementwise", native::describe_elementwise},
    {"Not", "native.elementwise", native::describe_elementwise},
    {"Or", "native.elementwise", native::describe_elementwise},
    {"Pow", "native.elementwise", native::describe_elementwise},
    {"Reciprocal", "native.elementwise", native::describe_elementwise},
    {"Relu", "native.elementwise", native::describe_elementwise},
    {"ReluBackward", "native.elementwise", native::describe_elementwise},
    {"Round", "native.elementwise", native::describe_elementwise},
    {"Sigmoid", "native.elementwise", native::describe_elementwise},
    {"SigmoidBackward", "native.elementwise", native::describe_elementwise},
    {"Sign", "native.elementwise", native::describe_elementwise},
    {"Sin", "native.elementwise", native::describe_elementwise},
    {"Softplus", "native.elementwise", native::describe_elementwise},
    {"Sqrt", "native.elementwise", native::describe_elementwise},
    {"Sub", "native.elementwise", native::describe_elementwise},
    {"Tanh", "native.elementwise", native::describe_elementwise},
    {"TanhBackward", "native.elementwise", native::describe_elementwise},
    {"Where", "native.elementwise", native::describe_elementwise},
    {"Xor", "native.elementwise", native::describe_elementwise},

    // Movement
    {"Fill", "native.fill", native::describe_fill},
    {"Reorder", "native.reorder", native::describe_reorder},
};

}  // namespace

std::span<const CpuKernelRow> cpu_kernels() { return rows; }

}  // namespace tandem
