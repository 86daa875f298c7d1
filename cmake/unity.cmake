# A first build compiles eight sources as one (TANDEM_UNITY): what many of them include is read once. Later builds are slower by it, so
# that it is off by default. These sources stay alone: names of their anonymous namespaces (rows, Reader, run, bias) stand in others, too.
# kernels/cpu and kernels/cuda are built without it: their sources have flags of their own.
set(sources_alone
  cli/cut.cpp cli/devices.cpp cli/evaluate.cpp cli/operators.cpp cli/plan.cpp cli/predict.cpp cli/run_processes.cpp cli/runs.cpp
  cli/mpi_ranks.cpp cli/summary.cpp cli/version.cpp data/image_jpeg.cpp data/npz.cpp data/thrift.cpp data/webdataset.cpp graph/dtype.cpp
  graph/operators/linear_attention.cpp graph/operators/losses.cpp graph/operators/matmul_nbits.cpp graph/operators/microsoft_fused.cpp
  graph/operators/microsoft_normalization.cpp graph/operators/quantization.cpp graph/operators/row_normalization.cpp
  graph/operators/scatter.cpp graph/operators/tree_ensembles.cpp importer/batch/rebatch.cpp importer/build/build_followed.cpp
  importer/build/settle_batch_normalization.cpp importer/edit/replace_head.cpp importer/flat/own_statistics.cpp
  importer/flat/single_bias.cpp importer/lora/lora_sites.cpp importer/message/adapter_file.cpp
  importer/message/device_configurations.cpp importer/message/tensor_names.cpp
  importer/training/training_export.cpp importer/training/training_info.cpp importer/upgrade/upgrade.cpp importer/write/viewer.cpp
  importer/write/write_inner.cpp kernels/traced_backend.cpp planner/fuse/fold_casts.cpp planner/fuse/match_activations.cpp
  planner/fuse/match_normalization.cpp planner/plan/print_html.cpp planner/plan/print_mermaid.cpp planner/plan/print_svg.cpp
  planner/recompute/run_again.cpp ranks/control.cpp trainer/measure/scores.cpp trainer/schedule.cpp)
list(TRANSFORM sources_alone PREPEND ${PROJECT_SOURCE_DIR}/)
set_source_files_properties(${sources_alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
function(tandem_unity name)
  if(name MATCHES "cpu|cuda")
    return()
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()
