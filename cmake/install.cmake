# The installed package: the program, libtandem.so with the C++ API, its headers, and a CMake package, so that
# find_package(tandem) and target_link_libraries(app tandem::tandem) are all an application needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All objects of the component libraries, also those that are compiled several times for several instruction sets.
set(objects)
foreach(part base graph data ranks kernels importer onnx_proto plan plan_proto planner runtime cpu trainer options api)
  get_target_property(sources tandem_${part} SOURCES)
  list(FILTER sources INCLUDE REGEX "^\\$<TARGET_OBJECTS:")
  list(APPEND objects $<TARGET_OBJECTS:tandem_${part}> ${sources})
endforeach()
add_library(tandem_shared SHARED ${objects})
add_library(tandem::tandem ALIAS tandem_shared)
set_target_properties(tandem_shared PROPERTIES
  OUTPUT_NAME tandem EXPORT_NAME tandem LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}  # what 0.1 promises 0.2 may change
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_compile_features(tandem_shared INTERFACE cxx_std_20)
# Applications see all headers below tandem/, in the build tree as in the installed one: here each is copied with the includes of
# its own kind under that name, so that no short one ("graph/...") can meet an application's.
set(headers ${PROJECT_BINARY_DIR}/include)
foreach(header IN LISTS TANDEM_PUBLIC_HEADERS)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(READ ${PROJECT_SOURCE_DIR}/${header} text)
  string(REGEX REPLACE "(#include \")([a-z])" "\\1tandem/\\2" text "${text}")
  string(REGEX REPLACE "^tandem/" "" name ${header})
  file(CONFIGURE OUTPUT ${headers}/tandem/${name} CONTENT "${text}" @ONLY)
endforeach()
target_include_directories(tandem_shared INTERFACE $<BUILD_INTERFACE:${headers}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tandem_shared PRIVATE
  protobuf::libprotobuf fmt::fmt ZLIB::ZLIB ${TANDEM_FORMAT_LIBRARIES} ${DNNL_LIBRARY} ${SODIUM_LIBRARY} OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})
# Only namespace tandem is visible to other libraries and the application.
target_link_options(tandem_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(NOT TANDEM_SANITIZE)  # sanitizers' functions come from the program
  target_link_options(tandem_shared PRIVATE -Wl,--no-undefined)
endif()

# Nothing is copied before all is built.
set(to_install tandem tandem_shared)
set(modules)  # opened at run time
foreach(module tandem_described tandem_cuda tandem_mpi_openmpi tandem_mpi_mpich)
  if(TARGET ${module})
    list(APPEND modules ${module})
  endif()
endforeach()
list(APPEND to_install ${modules})
string(REPLACE ";" " " names "${to_install}")
foreach(target ${to_install})
  install(CODE "if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
    message(FATAL_ERROR \"not built yet, nothing was installed; first: cmake --build ${PROJECT_BINARY_DIR} --target ${names}\")
  endif()")
endforeach()
install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${modules} LIBRARY DESTINATION lib/tandem)
install(TARGETS tandem_shared EXPORT tandem LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(header IN LISTS TANDEM_PUBLIC_HEADERS)  # one by one: the build folder may hold some of an older list
  string(REGEX REPLACE "^tandem/" "" name ${header})
  get_filename_component(folder ${name} DIRECTORY)
  install(FILES ${headers}/tandem/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder})
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(NOT CMAKE_CROSSCOMPILING)
  install(CODE "set(program \"$<TARGET_FILE:tandem>\")
    set(man \"${CMAKE_INSTALL_MANDIR}\")
    set(data \"${CMAKE_INSTALL_DATADIR}\")
    set(pages \"${PROJECT_BINARY_DIR}/pages\")")
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install-pages.cmake)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(EXPORT tandem FILE tandemTargets.cmake NAMESPACE tandem:: DESTINATION ${package})
configure_package_config_file(cmake/tandemConfig.cmake.in ${PROJECT_BINARY_DIR}/tandemConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandemConfig.cmake ${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake DESTINATION ${package})
