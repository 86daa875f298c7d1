#include "importer/model_file.h"

#include "graph/hash.h"
#include "importer/bind_inputs.h"
#include "importer/build_graph.h"
#include "importer/drop_unread.h"
#include "importer/model_file_impl.h"
#include "importer/reader.h"
#include "importer/recognise_batch_normalization.h"
#include "importer/report.h"
#include "importer/tensor_data.h"

namespace tandem {
namespace {

// Values that the flat model holds need not be held twice: the writer puts them back.
std::vector<DataForm> take_values(onnx::GraphProto& graph, const FlatModel& flat) {
  std::map<std::string, const FlatInitializer*> kept;
  for (const FlatInitializer& i : flat.main.initializers)
    if (i.data && is_float(i.type.dtype)) kept[flat.name(i.symbol)] = &i;
  std::vector<DataForm> forms;
  for (auto& tensor : *graph.mutable_initializer()) {
    const DataForm form = form_of(tensor);
    const bool taken = kept.contains(tensor.name()) && (form == DataForm::raw || form == DataForm::typed);
    forms.push_back(taken ? form : DataForm::none);
    if (taken) clear_values(tensor);
  }
  return forms;
}

}  // namespace

ModelFile::ModelFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelFile::~ModelFile() = default;
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;

ModelFile ModelFile::read(const std::filesystem::path& path) {
  try {
    return ModelFile(std::make_unique<Impl>(read_file(path, limits::model_bytes), ExternalData(path), path));
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) throw;
    fail("'", path.string(), "': ", error.what());
  }
}

ModelFile ModelFile::parse(std::string bytes, const std::filesystem::path& folder) {
  return ModelFile(std::make_unique<Impl>(std::move(bytes), ExternalData::beside(folder), std::filesystem::path()));
}

ModelFile::Impl::Impl(std::string bytes, ExternalData data, std::filesystem::path file)
    : path(std::move(file)), external(std::move(data)), proto(parse_model(bytes)) {
  flat = flatten(proto, external);
  forms = take_values(*proto.mutable_graph(), flat);
}

BuiltGraph ModelFile::Impl::build(const ImportOptions& options) const {
  const std::int64_t file_batch = batch_of_file(flat.inputs);
  const std::int64_t batch = options.batch > 0 ? options.batch : file_batch;
  if (batch == file_batch) return build_graph(flat, options, batch, nullptr);
  const BuiltGraph own = build_graph(flat, options, file_batch, nullptr, true);
  return build_graph(flat, options, batch, &own);
}

const std::string& ModelFile::name() const {
  return impl_->proto.graph().name();
}
std::int64_t ModelFile::ir_version() const {
  return impl_->proto.ir_version();
}
std::vector<ModelInput> ModelFile::inputs() const {
  return impl_->flat.inputs;
}

std::int64_t ModelFile::opset() const {
  for (const auto& import : impl_->proto.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx") return import.version();
  return 0;
}

std::string ModelFile::producer() const {
  const auto& proto = impl_->proto;
  return proto.producer_version().empty() ? proto.producer_name() : concat(proto.producer_name(), ' ', proto.producer_version());
}

std::vector<std::string> ModelFile::outputs() const {
  return impl_->flat.output_names;
}

std::string ModelFile::fingerprint() const {
  onnx::ModelProto skeleton = impl_->proto;
  for (auto& tensor : *skeleton.mutable_graph()->mutable_initializer())
    if (is_float(static_cast<DType>(tensor.data_type()))) clear_values(tensor), tensor.clear_external_data(), tensor.clear_data_location();
  Hash hash;
  hash.add(skeleton.SerializeAsString());
  return hash.text();
}

std::vector<Problem> ModelFile::problems(const ImportOptions& options) const {
  return impl_->build(options).problems;
}

Graph ModelFile::graph(const ImportOptions& options) const {
  BuiltGraph built = impl_->build(options);
  if (!built.problems.empty()) fail(report_of(impl_->path.empty() ? name() : impl_->path.string(), built.problems));
  recognise_batch_normalization(built.graph);
  drop_unread(built.graph);
  verify(built.graph);
  return std::move(built.graph);
}

}  // namespace tandem
