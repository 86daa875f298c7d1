// A model's forward and backward pass, for a caller that computes the loss and updates the parameters.
//
//   tandem::Autograd pass(model.source(), {.model = options, .parameters = {"fc.weight", "fc.bias"}}, backends);
//   pass.set_parameters(weights);
//   const std::vector<tandem::NamedTensor> outputs = pass.forward(batch, step);
//   const std::vector<tandem::NamedTensor> gradients = pass.backward(gradients_of(outputs));
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/session.h"
#include "trainer/template/model_template.h"

namespace tandem {

// train: normalizations take the batch's statistics and move the running ones, and Dropout drops. eval: neither. predict: as eval, of the
// forward pass alone.
enum class AutogradMode { train, eval, predict };

struct AutogradOptions {
  ModelOptions model;  // batch, devices, precision, first values, ...; its loss and optimizer are not asked
  // Whose gradients backward() gives, by the template's names; none: of those that a training of options.model trains.
  std::optional<std::vector<std::string>> parameters;
  std::vector<std::string> inputs;  // of floats, the same
  // Of normalizations that in train, too, take their running statistics and leave them: the names of the running means.
  std::vector<std::string> frozen;
  AutogradMode mode = AutogradMode::train;
};

class Autograd {
 public:
  // Plans for options.model.plan.batch samples, opens the devices and takes the weights that options.model.init says. `backends`
  // must outlive it. Fails (usage) on what does not go with a loss that the caller computes, naming the option; (model, device) as
  // Model::compile.
  Autograd(const ModelTemplate& source, const AutogradOptions& options, Backends backends);
  ~Autograd();
  Autograd(Autograd&&) noexcept;
  // Another of the same plan, with memory of its own, for a forward pass while this one's backward pass is to come.
  Autograd again() const;

  const Plan& plan() const;                          // of both passes; predict: of one
  const std::vector<std::string>& trained() const;  // the parameters that backward() gives gradients of
  const std::vector<std::string>& outputs() const;  // the names of what forward() gives, in its order

  // Weights and running statistics by the template's names, in its shapes. Those not named stay. Fails (model) on others.
  void set_parameters(std::span<const NamedTensor> values);
  Tensor parameter(const std::string& name) const;  // fails (model) where there is none
  // Running statistics as the forward passes have left them, by name.
  std::vector<NamedTensor> statistics() const;

  // The outputs of one batch, in the model's order: an output that holds samples has them along axis 0. `inputs`: by name, of the
  // plan's types ([batch, ...]). `step`: from 1, by which random numbers are drawn. What backward() needs stays in the devices' memory
  // until the next forward(). Fails (data) where an input is missing or of another type.
  std::vector<NamedTensor> forward(std::span<const NamedTensor> inputs, std::int64_t step = 1);
  // The gradients of `parameters`, in the template's shapes, and of `inputs`: of what the outputs' gradients, by the outputs' names and in
  // their types, are the gradients of. An output that is not named has a gradient of zeros; a parameter that no output depends on has no
  // entry. Fails (usage) unless a forward() came right before, whose values this uses up.
  std::vector<NamedTensor> backward(std::span<const NamedTensor> gradients);

 private:
  struct State;
  explicit Autograd(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tandem
