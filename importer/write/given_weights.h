// The weights that a model is written with, as its file is going to hold them.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "importer/model_file_impl.h"
#include "importer/weights/looked_up.h"
#include "importer/weights/tie_weights.h"

namespace tandem {

// Of a source whose weights are asked for one by one: a weight is in memory while whoever asked for it keeps it.
class GivenWeights {
 public:
  // Each is checked against the parameter that it names. `merged`: adapters are added to their weights. All outlive it. Fails (model)
  // where a weight has another type or names nothing.
  GivenWeights(const ModelFile::Impl& impl, const ModelFile::WeightSource& source, const Graph& parameters, bool merged);

  bool has(const std::string& name) const;
  TensorType type_of(const std::string& name) const;  // in the file
  // In the file's type and the template's shape, with adapters merged; of a tensor that follows another that one's, of one that was
  // looked up its rows' at every place.
  std::optional<Tensor> read(const std::string& name) const;

 private:
  struct Repeated {
    BatchPlace place;
    std::int64_t samples = 1;
  };
  struct Weight {
    TensorType type;  // the template's
    std::optional<Repeated> repeated;
  };
  void add(const std::string& name, const TensorType& type, const Value& parameter);
  void add_merged();
  Tensor trained(const std::string& name) const;  // as parameters are
  Tensor own(const std::string& name) const;      // in the file's type

  const ModelFile::Impl& impl_;
  const ModelFile::WeightSource& source_;
  std::map<std::string, Weight> given_;
  std::multimap<std::string, std::size_t> adapters_;  // of a weight, where they are merged
  std::map<std::string, DType> types_;                // the file's
  std::map<std::string, const LookedUp*> looked_up_;
  std::map<std::string, const Tie*> ties_;  // by follower
};

}  // namespace tandem
