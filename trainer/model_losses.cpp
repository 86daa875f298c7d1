// What a model gives besides outputs and losses: probabilities, classes, gradients; and the weights of classes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/option.h"
#include "base/spec.h"
#include "planner/compile.h"
#include "trainer/loss_measures.h"

namespace tandem {
namespace {

// The first loss that has classes, or yes and no.
const Labels& classifying(const Losses& losses, const std::string& model) {
  for (const Labels& l : losses)
    if (l.axis >= 0 || loss_row(l.loss).labels == LabelKind::binary) return l;
  fail(ExitCode::usage, "model '", model, "': its loss has no classes; ", option("loss"),
       " softmax-cross-entropy or binary-cross-entropy does");
}

// Runs of `length` numbers, `stride` apart, along which the classes stand.
struct Runs {
  std::int64_t outer, length, stride;
};
Runs runs_of(const Labels& l, const Shape& all) {
  Runs r{all[0], 1, 1};
  if (l.axis < 0) return {1, 1, 1};
  const Shape& s = l.scores;
  r.length = s[l.axis];
  for (int i = l.axis + 1; i < s.rank(); ++i) r.stride *= s[i];
  r.outer = r.length * r.stride == 0 ? 0 : all.elements() / (r.length * r.stride);
  return r;
}

void softmax(float* x, std::int64_t length, std::int64_t stride) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t c = 0; c < length; ++c) top = std::max(top, static_cast<double>(x[c * stride]));
  for (std::int64_t c = 0; c < length; ++c) sum += std::exp(static_cast<double>(x[c * stride]) - top);
  for (std::int64_t c = 0; c < length; ++c) x[c * stride] = static_cast<float>(std::exp(static_cast<double>(x[c * stride]) - top) / sum);
}

}  // namespace

Tensor Model::predict_proba(const Dataset& data, const EvaluateOptions& o) {
  const Labels& l = classifying(state_->losses, state_->file.name());
  std::vector<NamedTensor> outputs = predict(data, o);
  const auto on = std::find_if(outputs.begin(), outputs.end(), [&](const NamedTensor& t) { return t.name == l.value; });
  if (on == outputs.end()) fail(ExitCode::usage, "predict gives no '", l.value, "', which gives the classes");
  Tensor t = on->tensor.cast(DType::float32);
  const auto values = t.write<float>();
  if (l.kind == OutputKind::log_softmax)
    for (float& v : values) v = std::exp(v);
  if (l.kind != OutputKind::plain) return t;
  if (l.axis < 0)
    for (float& v : values) v = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(v))));
  const Runs r = runs_of(l, t.shape());
  for (std::int64_t o2 = 0; o2 < r.outer && l.axis >= 0; ++o2)
    for (std::int64_t i = 0; i < r.stride; ++i) softmax(values.data() + o2 * r.length * r.stride + i, r.length, r.stride);
  return t;
}

Tensor Model::predict_classes(const Dataset& data, const EvaluateOptions& o) {
  const Labels& l = classifying(state_->losses, state_->file.name());
  const Tensor p = predict_proba(data, o);
  const auto values = p.values<float>();
  if (l.axis < 0) {
    Tensor classes(TensorType{DType::int64, p.shape()});
    std::transform(values.begin(), values.end(), classes.write<std::int64_t>().begin(), [](float v) { return std::int64_t{v > 0.5F}; });
    return classes;
  }
  Shape shape = l.scores;
  shape.dims.erase(shape.dims.begin() + l.axis);
  if (l.positions() == 1) shape = {};
  shape.dims.insert(shape.dims.begin(), data.size());
  Tensor classes(TensorType{DType::int64, shape});
  const auto to = classes.write<std::int64_t>();
  const Runs r = runs_of(l, p.shape());
  for (std::int64_t n = 0; n < r.outer; ++n)
    for (std::int64_t i = 0; i < r.stride; ++i) {
      const float* x = values.data() + n * r.length * r.stride + i;
      std::int64_t best = 0;
      for (std::int64_t c = 1; c < r.length; ++c)
        if (x[c * r.stride] > x[best * r.stride]) best = c;
      to[static_cast<std::size_t>(n * r.stride + i)] = best;
    }
  return classes;
}

// Of its own, for a step moves statistics and states, too.
Session& Model::State::gradient_session(std::int64_t batch) {
  std::unique_ptr<Session>& session = gradient_sessions[batch];
  if (session) return *session;
  CompileOptions o = plan_options(options);
  o.batch = batch;
  o.given_bytes.clear();
  if (o.keep_gradients.empty())
    for (const Graph graph = source(options)(batch); const Value& v : graph.values)
      if (v.kind == ValueKind::parameter && v.role == ValueRole::plain) o.keep_gradients.push_back(v.name);
  session = std::make_unique<Session>(tandem::compile(source(options), o, backends), backends);
  return *session;
}

std::vector<NamedTensor> Model::gradients(std::span<const Tensor> inputs) {
  State& s = *state_;
  if (s.running().plan(0).mode != PlanMode::training)
    fail(ExitCode::usage, "model '", s.file.name(), "' is compiled for inference: it has no gradients");
  if (s.options.world) fail(ExitCode::usage, "gradients are given in one process alone, this model trains in several");
  Session& session = s.gradient_session(inputs.empty() || inputs[0].shape().rank() == 0 ? 0 : inputs[0].shape()[0]);
  for (const ValueRole role : {ValueRole::plain, ValueRole::teacher}) session.set_parameters(s.session->parameters_as(role), role);
  const Plan& plan = session.plan(0);
  std::vector<const std::byte*> fed;
  for (const HostInput& input : plan.inputs) {
    const auto target = std::find_if(s.targets.begin(), s.targets.end(), [&](const FeedTarget& t) { return feeds(t, input); });
    const auto at = static_cast<std::size_t>(target - s.targets.begin());
    if (target != s.targets.end() && (at >= inputs.size() || inputs[at].type() != input.type))
      fail(ExitCode::data, "'", input.name, "': expected ", input.type, at < inputs.size() ? concat(", got ", inputs[at].type()) : "");
    fed.push_back(target == s.targets.end() ? nullptr : inputs[at].bytes().data());
  }
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> outputs;
  for (const HostOutput& out : plan.outputs) storage.emplace_back(static_cast<std::size_t>(out.bytes()));
  for (auto& bytes : storage) outputs.push_back(bytes.data());
  session.run(0, fed, outputs, s.step_state(0));
  constexpr std::string_view prefix = "gradient/";
  std::vector<NamedTensor> list;
  for (std::size_t i = 0; i < storage.size(); ++i) {
    if (plan.outputs[i].role != ValueRole::metric || !plan.outputs[i].of.starts_with(prefix)) continue;
    Tensor sum(plan.outputs[i].type);
    visit_float(sum.dtype(), [&]<class T>() {
      const auto to = sum.write<T>();
      const T* part = reinterpret_cast<const T*>(storage[i].data());
      for (std::size_t k = 0; k < storage[i].size() / sizeof(T); ++k) to[k % to.size()] += part[k];
    });
    list.push_back({plan.outputs[i].of.substr(prefix.size()), std::move(sum)});
  }
  return list;
}

std::vector<double> Model::class_weights(std::string_view text, const ModelOptions& options, const Dataset& data) const {
  std::vector<double> weights;
  if (text.empty()) return weights;
  ModelOptions plain = options;
  plain.plan.loss.class_weights.clear();
  const Losses losses = state_->losses_for(plain);
  const auto with_classes = std::find_if(losses.begin(), losses.end(), [](const Labels& l) { return l.classes > 0; });
  if (with_classes == losses.end())
    fail(ExitCode::usage, option("class_weights"), ": the loss ", options.plan.loss.name, " has no classes");
  const Labels& l = *with_classes;
  if (text != "balanced") {
    std::string list(text);
    if (std::filesystem::is_regular_file(list)) {
      list = read_file(list);
      for (char& c : list)
        if (c == '\n' || c == '\r' || c == ' ' || c == '\t') c = ',';
    }
    for (const std::string& one : split(list, ','))
      if (!one.empty()) weights.push_back(parse_number(one, "class weights"));
    if (static_cast<std::int64_t>(weights.size()) != l.classes)
      fail(ExitCode::usage, option("class_weights"), " '", text, "': ", weights.size(), " weights for ", l.classes, " classes");
    return weights;
  }
  const auto fields = data.fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& f) { return f.role == Role::label && (l.output.empty() || f.name == l.output); });
  if (field == fields.end() || l.sample->dtype != DType::int64 || is_float(field->sample.dtype) ||
      field->sample.shape.elements() != l.sample->shape.elements())
    fail(ExitCode::data, option("class_weights"), " balanced: ", data.name(), " has no labels that are class indices");
  std::vector<std::int64_t> counts(static_cast<std::size_t>(l.classes));
  const auto each = static_cast<std::size_t>(field->sample.shape.elements());
  std::vector<std::int64_t> samples(static_cast<std::size_t>(std::min<std::int64_t>(data.size(), 4096)));
  std::vector<std::byte> raw(samples.size() * each * size_of(field->sample.dtype));
  const std::int64_t distinct = data.distinct(static_cast<std::size_t>(field - fields.begin()));
  for (std::int64_t begin = 0; begin < distinct; begin += std::ssize(samples)) {
    samples.resize(static_cast<std::size_t>(std::min(distinct - begin, std::ssize(samples))));
    std::iota(samples.begin(), samples.end(), begin);
    data.read(static_cast<std::size_t>(field - fields.begin()), samples, raw.data());
    visit_number(field->sample.dtype, [&]<class T>() {
      for (const T v : std::span(reinterpret_cast<const T*>(raw.data()), samples.size() * each)) {
        const auto label = static_cast<std::int64_t>(v);
        if (label >= 0 && label < l.classes && !(l.ignore && label == *l.ignore)) ++counts[static_cast<std::size_t>(label)];
      }
    });
  }
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  for (const std::int64_t count : counts)
    weights.push_back(count == 0 ? 0 : all / (static_cast<double>(l.classes) * static_cast<double>(count)));
  return weights;
}

}  // namespace tandem
