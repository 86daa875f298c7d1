// Asks cuDNN's heuristics for engines, builds the plans that fit the request, and finds one again by the name it was given.
#include "kernels/cuda/cudnn/plan.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <future>

#include "base/hash.h"
#include "kernels/cuda/cache.h"
#include "kernels/cuda/check.h"

namespace tandem::cuda {
namespace {

constexpr std::size_t most_compiled = 4;  // engines of a graph that may be compiled at run time, a second each
// Choices of one engine's knobs: its best guesses differ by some 2%, another engine may by more.
constexpr std::ptrdiff_t most_alike = 3, most_compiled_alike = 2;
constexpr std::size_t most_fallbacks = 2;

// One plan at a time in a process: once two threads have compiled at once, cuDNN 9.19 compiles nothing any more.
std::mutex& building() {
  static std::mutex lock;
  return lock;
}

// A configuration as engine and knobs.
Engine engine_of(const Descriptor& configuration) {
  Engine e;
  const std::vector<Descriptor> engine = configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  e.index = engine.at(0).integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  for (const Descriptor& knob :
       configuration.descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    const auto type = knob.values<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1);
    e.knobs.emplace_back(type.at(0), knob.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  std::sort(e.knobs.begin(), e.knobs.end());
  return e;
}

Descriptor configuration_of(const Descriptor& graph, const Engine& e, const Descriptor* properties) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, e.index);
  if (properties) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *properties);
  engine.finalize(concat("engine ", e.index));
  std::vector<Descriptor> knobs;
  for (const auto& [type, value] : e.knobs) {
    const auto knob_type = static_cast<cudnnBackendKnobType_t>(type);
    knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob_type)
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
        .finalize("knob");
  }
  Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty()) configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, std::span<const Descriptor>(knobs));
  configuration.finalize("engine configuration");
  return configuration;
}

bool passes(const Descriptor& configuration, const EngineFilter& filter) {
  const std::vector<Descriptor> engine = configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const auto notes = engine.at(0).values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                                      CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto noted = [&](cudnnBackendNumericalNote_t n) { return std::find(notes.begin(), notes.end(), n) != notes.end(); };
  if (noted(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;  // sums are float32's
  if (filter.deterministic && noted(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  // Fourier's way rounds as Winograd's does.
  for (const cudnnBackendNumericalNote_t rounding :
       {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, CUDNN_NUMERICAL_NOTE_FFT})
    if (!filter.winograd && noted(rounding)) return false;
  if (filter.exact_float32 && (noted(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) || noted(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))) return false;
  return true;
}

bool compiled_at_run_time(const Descriptor& configuration) {
  const std::vector<Descriptor> engine = configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const auto notes = engine.at(0).values<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                                                     CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  return std::find(notes.begin(), notes.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != notes.end();
}

bool driver_library_there() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library) dlclose(library);
  return library != nullptr;
}

}  // namespace

EngineFilter filter_of(const KernelOptions& options, DType dtype) {
  return {.deterministic = options.deterministic, .winograd = options.winograd, .exact_float32 = dtype == DType::float32 && !options.tf32};
}

CudnnTarget::CudnnTarget(const DeviceDescription& device) : driver_(driver_library_there()) {
  Descriptor& d = properties_.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  if (device.at_hand()) {
    const auto index = static_cast<std::int32_t>(device.index);
    d.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &index);
  } else {
    d.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(device.cudnn_json.size()),
          device.cudnn_json.data());
  }
  d.finalize("device properties");
  device_ = concat(cudnnGetVersion(), device.at_hand() ? " at hand " : " ", d.text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION));
  if (!device.at_hand()) return;
  // In a thread of its own: the caller's current device stays as it is.
  handle_.reset(std::async(std::launch::async, [index = device.index] {
                  check(cudaSetDevice(index), concat("select device ", index));
                  cudnnHandle_t handle = nullptr;
                  check(cudnnCreate(&handle), concat("create a handle on device ", index));
                  return handle;
                }).get());
}

std::string CudnnTarget::name_of(const CudnnGraph& graph, const Engine& engine) const {
  return concat("cudnn-", hash_of(concat(device_, '\n', graph.text(), to_string(engine))), ".plan");
}

// On disk: the workspace, a line's end, and the plan. Only what takes long to build is kept there.
CudnnTarget::Built CudnnTarget::built(const std::string& name, const Descriptor& configuration) const {
  const std::scoped_lock one(building());
  {
    const std::scoped_lock hold(lock_);
    if (const auto known = built_.find(name); known != built_.end()) return known->second;
  }
  Built b;
  const bool compiled = compiled_at_run_time(configuration);
  const auto kept = compiled ? read_kept(name) : std::nullopt;
  const std::size_t end = kept ? kept->find('\n') : std::string::npos;
  if (end != std::string::npos && std::from_chars(kept->data(), kept->data() + end, b.workspace).ptr == kept->data() + end) {
    b.json = kept->substr(end + 1);
  } else {
    Descriptor d(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (const cudnnHandle_t handle = handle_.get())
      d.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    else
      d.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties_);
    d.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration).finalize("execution plan");
    b.workspace = d.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    try {
      if (compiled) b.json = d.text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    } catch (const Error&) {  // not of this engine: it is built anew
    }
    if (!b.json.empty()) keep(name, concat(b.workspace, '\n', b.json));
  }
  const std::scoped_lock hold(lock_);
  return built_.insert_or_assign(name, std::move(b)).first->second;
}

// Engines that cuDNN compiles at run time want the driver's library for that even where there is no device. Without it
// their configuration, which cuDNN has checked, has to do.
std::int64_t CudnnTarget::workspace_of(const CudnnGraph& graph, const Engine& engine, const Descriptor& configuration) const {
  if (!driver_ && compiled_at_run_time(configuration)) return configuration.integer(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
  return built(name_of(graph, engine), configuration).workspace;
}

std::vector<PlannedEngine> CudnnTarget::look_for(const CudnnGraph& graph, const EngineFilter& filter, std::size_t most) const {
  std::vector<PlannedEngine> found;
  std::size_t compiled = 0;
  const Descriptor described = operations(graph);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (found.size() == most) break;
    std::vector<Descriptor> configurations;
    try {
      Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, described).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
      if (properties()) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties());
      heuristics.finalize("engine heuristics");
      configurations = heuristics.descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    } catch (const Error&) {  // no engine by this mode
    }
    const std::size_t enough = found.empty() ? most : std::min(most, found.size() + most_fallbacks);
    for (const Descriptor& configuration : configurations) {
      if (found.size() >= enough) break;
      try {
        if (!passes(configuration, filter)) continue;
        const Engine engine = engine_of(configuration);
        if (std::find(filter.without.begin(), filter.without.end(), engine.index) != filter.without.end()) continue;
        const auto alike = [&](const PlannedEngine& p) { return p.engine.index == engine.index; };
        const bool at_run_time = compiled_at_run_time(configuration);
        if (std::any_of(found.begin(), found.end(), [&](const PlannedEngine& p) { return p.engine == engine; }) ||
            std::count_if(found.begin(), found.end(), alike) >= (at_run_time ? most_compiled_alike : most_alike))
          continue;
        if (at_run_time && compiled == most_compiled) continue;
        found.push_back({engine, workspace_of(graph, engine, configuration)});
        compiled += at_run_time;
      } catch (const Error&) {  // cuDNN cannot plan it after all: the next one
      }
    }
  }
  return found;
}

std::vector<PlannedEngine> CudnnTarget::engines(const std::string& key, const std::function<CudnnGraph()>& build,
                                                const EngineFilter& filter, std::size_t most) const {
  const std::string whole = concat(key, filter.deterministic, filter.winograd, filter.exact_float32, ' ', most);
  {
    const std::scoped_lock hold(lock_);
    if (const auto known = remembered_.find(whole); known != remembered_.end()) return known->second;
  }
  std::vector<PlannedEngine> found;
  try {
    found = look_for(build(), filter, most);
  } catch (const Error&) {  // cuDNN refuses to describe the operation: it has no engine for it either
  }
  const std::scoped_lock hold(lock_);
  return remembered_.insert_or_assign(whole, found).first->second;
}

std::int64_t CudnnTarget::workspace(const CudnnGraph& graph, const Engine& engine) const {
  const Descriptor described = operations(graph);
  return workspace_of(graph, engine, configuration_of(described, engine, properties()));
}

std::shared_ptr<const Descriptor> CudnnTarget::runnable(const CudnnGraph& graph, const Engine& engine, cudnnHandle_t handle) const {
  const std::string name = name_of(graph, engine);
  const std::pair place(handle, name);
  {
    const std::scoped_lock hold(lock_);
    if (auto shared = running_[place].lock()) return shared;
  }
  const Descriptor planned = operations(graph), described = configuration_of(planned, engine, properties());
  std::string json = compiled_at_run_time(described) ? built(name, described).json : "";
  auto plan = std::make_shared<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  const auto with_handle = [&]() -> Descriptor& { return plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle); };
  const std::scoped_lock one(building());
  try {
    if (!json.empty()) with_handle().set_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, json).finalize("execution plan");
  } catch (const Error&) {  // of another cuDNN after all
    json.clear();
    plan = std::make_shared<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  }
  if (json.empty()) {
    const Descriptor own = graph.finalized(handle);
    with_handle().set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration_of(own, engine, nullptr)).finalize("execution plan");
  }
  const std::scoped_lock hold(lock_);
  running_[place] = plan;
  return plan;
}

void CudnnPlan::bind(const std::function<void*(int role)>& address, std::byte* workspace) {
  std::vector<std::int64_t> uids;
  std::vector<void*> addresses;
  for (const CudnnGraph::Binding& b : bindings_) {
    uids.push_back(b.uid);
    addresses.push_back(address(b.role));
  }
  void* const scratch = workspace;
  pack_.emplace(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
      .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(addresses.size()), addresses.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch)
      .finalize("variant pack");
}

void CudnnPlan::run(void* stream) {
  check(cudnnSetStream(handle_, static_cast<cudaStream_t>(stream)), "set the stream");
  check(cudnnBackendExecute(handle_, plan_->native(), pack_->native()), "run a plan");
}

}  // namespace tandem::cuda
