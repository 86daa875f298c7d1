// Makes kernels of what cuDNN planned: binds its tensors to memory, and starts launches of our own around it.
#include "kernels/cuda/cudnn/kernel.h"

#include "kernels/cuda/libraries.h"

namespace tandem::cuda {
namespace {

class CudnnKernel final : public Kernel {
 public:
  CudnnKernel(const CudnnRecipe& recipe, const PlannedEngine& engine, const CudnnGraph& graph, const CudnnTarget& target,
              cudnnHandle_t handle)
      : plan_(target.runnable(graph, engine.engine, handle), graph, handle),
        numbers_(recipe.numbers),
        scratch_(recipe.scratch),
        before_(recipe.before),
        after_(recipe.after),
        cudnn_workspace_(align_up(engine.workspace)) {
    // Another device than the one that was planned for may make another plan of the same engine.
    if (const std::int64_t needed = plan_.workspace(); needed > engine.workspace)
      fail(ExitCode::device, recipe.family, '.', to_string(engine.engine), " needs ", needed,
           " bytes of workspace on this device, the plan has ", engine.workspace, ": a plan made for another device is to be made again");
  }

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    std::byte* const own = workspace ? workspace + cudnn_workspace_ : nullptr;
    plan_.bind(
        [&](int role) -> void* {
          if (role >= number_role(0)) return &numbers_[static_cast<std::size_t>(role - number_role(0))];
          if (role >= scratch_role) return own + scratch_[static_cast<std::size_t>(role - scratch_role)];
          if (role >= output_role(0)) return outputs[static_cast<std::size_t>(role - output_role(0))];
          return inputs[static_cast<std::size_t>(role)];
        },
        workspace);
    const Buffers buffers{{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, own};
    if (before_) first_ = before_(buffers);
    if (after_) last_ = after_(buffers);
  }
  void run(StreamHandle stream) override {
    if (first_) first_(stream.native);
    plan_.run(stream.native);
    if (last_) last_(stream.native);
  }

 private:
  CudnnPlan plan_;
  std::vector<float> numbers_;
  std::vector<std::int64_t> scratch_;
  Binder before_, after_;
  Launches first_, last_;
  std::int64_t cudnn_workspace_;
};

constexpr std::size_t timed_engines = 10;

std::string key_of(const CudnnRecipe& recipe, const KernelRequest& request) {
  std::string key = concat(recipe.family, ' ', request.op, ' ', *request.attributes);
  for (const auto* operands : {&recipe.description.inputs, &recipe.description.outputs})
    for (const Operand& o : *operands) key += concat(' ', o);
  return key;
}

}  // namespace

std::vector<KernelDescription> descriptions_of(const CudnnRecipe& recipe, const KernelRequest& request, Libraries& libraries) {
  const std::string prefix = recipe.family + '.';
  std::vector<PlannedEngine> engines;
  if (request.kernel.empty()) {
    engines = libraries.cudnn_target(request.options.device)
                  .engines(key_of(recipe, request), recipe.build, recipe.filter, request.timed ? timed_engines : 1);
  } else if (request.kernel.starts_with(prefix)) {
    const std::optional<Engine> engine = parse_engine(request.kernel.substr(prefix.size()));
    if (engine) engines.push_back({*engine, libraries.cudnn_target(request.options.device).workspace(recipe.build(), *engine)});
  }
  std::vector<KernelDescription> all;
  for (const PlannedEngine& engine : engines) {
    KernelDescription d = recipe.description;
    d.kernel = prefix + to_string(engine.engine);
    d.workspace = align_up(engine.workspace) + recipe.own_workspace;
    d.make = [recipe, engine, &libraries, device = request.options.device]() -> std::unique_ptr<Kernel> {
      return std::make_unique<CudnnKernel>(recipe, engine, recipe.build(), libraries.cudnn_target(device), libraries.cudnn());
    };
    all.push_back(std::move(d));
  }
  return all;
}

}  // namespace tandem::cuda
