// The external data of an exported model: the template's tensors and the new weights, packed into files that are named
// here, never where a template says, and that replace no file of anybody else's. The model at the output's place is whole
// at every moment, the old one or the new one: each has data files of its own (OUTPUT.data and OUTPUT.2.data by turns).
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/atomic_file.h"
#include "importer/message/external_data.h"
#include "importer/model_file.h"

namespace tandem {

class ExternalExport {
 public:
  // Of a model that will be written to `output`. `external`: where the template's own data lie.
  ExternalExport(const ExternalData& external, std::filesystem::path output, const SaveOptions& options);

  // Puts the tensor's values, given or (null) those of the template's external data, into a file beside the output, and
  // makes the proto point there. Fails (usage) where that file is another's, (io) where it cannot be written.
  void store(onnx::TensorProto& proto, const Tensor* values);
  // All tensors of the model that are still in the template's external files: those of attributes and functions too.
  void store_rest(onnx::ModelProto& model);
  // The same without writing: fails where store_rest would, so that it is known before a training begins. Returns the bytes.
  std::int64_t check(onnx::ModelProto& model);
  // Fails where weights that leave the model could not be stored for their file's name.
  void check_room() { name_for(""); }
  void flush();   // to the disk
  // The files take their names, which no model reads yet. A process that is killed before finish() leaves a mark beside
  // them, by which the next write to the same output knows them for its own.
  void commit();
  // Once the model has taken its own name: the data of the one that it has replaced go.
  void finish();

 private:
  struct File {
    AtomicFile file;
    std::int64_t end = 0;
  };
  using Region = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;  // new file; the template's: path, offset, length
  const std::string& name_for(const std::string& location);  // of the new file; fails where it may not be taken
  std::string choose_name(const std::string& location);
  std::filesystem::path mark() const;
  File& file(const std::string& name);
  std::int64_t copy(const Region& region, File& to);

  const ExternalData& external_;
  std::filesystem::path output_;
  SaveOptions options_;
  std::map<std::string, std::string> names_;  // of new files, by the template's location; "" in place of all without keep_external_layout
  std::map<std::string, File> files_;        // by name
  std::map<Region, std::int64_t> copied_;    // to this offset: what the template's tensors share stays shared
  std::set<const onnx::TensorProto*> done_;
  std::string replaced_;  // the data of the model that lies at the output's place now
};

}  // namespace tandem
