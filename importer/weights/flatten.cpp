#include "importer/weights/flatten.h"

#include "importer/flat/drop_dead_nodes.h"
#include "importer/flat/drop_label_outputs.h"
#include "importer/flat/embedding_notes.h"
#include "importer/flat/inline_functions.h"
#include "importer/flat/linear_models.h"
#include "importer/flat/own_statistics.h"
#include "importer/flat/single_bias.h"
#include "importer/weights/detached.h"
#include "importer/weights/find_weights.h"
#include "importer/weights/looked_up.h"
#include "importer/weights/lost_parameters.h"
#include "importer/weights/tie_weights.h"
#include "tandem_onnx.pb.h"

namespace tandem {

FlatModel flatten(const onnx::ModelProto& model, std::int64_t bytes, ExternalData& external, const WeightOptions& options) {
  FlatModel flat = inline_functions(model, bytes, external);
  drop_label_outputs(flat);
  lift_linear_models(flat);
  drop_dead_nodes(flat);
  mark_detached(flat);
  mark_own_statistics(flat);
  mark_embeddings(flat);
  find_weights(flat, options);
  tie_weights(flat, options);
  find_looked_up(flat);
  warn_of_lost_parameters(flat);
  find_single_biases(flat, model.producer_name());
  warn_of_equal_tensors(flat);
  warn_of_halves(flat);
  return flat;
}

}  // namespace tandem
