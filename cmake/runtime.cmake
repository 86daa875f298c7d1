# libtandem_runtime.so: the runtime alone behind its C API (tandem/runtime.h). It is linked of the component libraries, so that it has
# only those objects that a run needs.
include(GNUInstallDirs)
add_library(tandem_runtime_shared SHARED tandem/runtime/runtime.cpp)
set_target_properties(tandem_runtime_shared PROPERTIES
  OUTPUT_NAME tandem_runtime EXPORT_NAME runtime SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/runtime.map)
add_library(tandem::runtime ALIAS tandem_runtime_shared)
target_link_libraries(tandem_runtime_shared PRIVATE tandem_runtime tandem_cpu)
target_include_directories(tandem_runtime_shared PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(tandem_runtime_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/runtime.map -Wl,--as-needed)
if(NOT TANDEM_SANITIZE)  # sanitizers' functions come from the program
  target_link_options(tandem_runtime_shared PRIVATE -Wl,--no-undefined)
endif()
