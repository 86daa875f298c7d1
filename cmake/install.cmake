# The installed package: the program, libtandem.so with the C++ API, its headers, a CMake package and a pkg-config file, so that
# find_package(tandem) and target_link_libraries(app tandem::tandem) are all an application needs. Every file belongs to a component,
# which is a Debian package (cmake/packages.cmake): program, library, runtime, development, cuda, mpi-openmpi, mpi-mpich.
include(CMakePackageConfigHelpers)

# All objects of the component libraries, also those that are compiled several times for several instruction sets.
set(objects)
foreach(part base graph data ranks kernels importer onnx_proto plan plan_proto planner runtime cpu trainer options api cli)
  get_target_property(sources tandem_${part} SOURCES)
  list(FILTER sources INCLUDE REGEX "^\\$<TARGET_OBJECTS:")
  list(APPEND objects $<TARGET_OBJECTS:tandem_${part}> ${sources})
endforeach()
add_library(tandem_shared SHARED ${objects})
add_library(tandem::tandem ALIAS tandem_shared)
set_target_properties(tandem_shared PROPERTIES
  OUTPUT_NAME tandem EXPORT_NAME tandem LINKER_LANGUAGE CXX
  SOVERSION ${TANDEM_SOVERSION}  # the file's name, too: cpack counts a link to it as a second file
  LINK_DEPENDS ${PROJECT_BINARY_DIR}/exports.map)
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
# Other libraries and the application see what the public headers declare, and what the Python module and the program use besides.
include(cmake/exports.cmake)
tandem_exports(${PROJECT_BINARY_DIR}/exports.map ${TANDEM_PUBLIC_HEADERS} ${TANDEM_PRIVATE_HEADERS})
target_link_options(tandem_shared PRIVATE -Wl,--version-script=${PROJECT_BINARY_DIR}/exports.map)
if(NOT TANDEM_SANITIZE)  # sanitizers' functions come from the program
  target_link_options(tandem_shared PRIVATE -Wl,--no-undefined)
endif()

# tandem_component(NAME TARGET...): the targets of a component that this build has.
set(components)
function(tandem_component name)
  set(targets)
  foreach(target ${ARGN})
    if(TARGET ${target})
      list(APPEND targets ${target})
    endif()
  endforeach()
  if(targets)
    set(components ${components} ${name} PARENT_SCOPE)
    set(targets_${name} ${targets} PARENT_SCOPE)
  endif()
endfunction()
tandem_component(program tandem)
tandem_component(library tandem_shared tandem_described)
tandem_component(runtime tandem_runtime_shared)
tandem_component(cuda tandem_cuda)
tandem_component(mpi-openmpi tandem_mpi_openmpi)
tandem_component(mpi-mpich tandem_mpi_mpich)

# Nothing is copied before all that is installed is built.
add_custom_target(installed)
foreach(component ${components})
  foreach(target ${targets_${component}})
    add_dependencies(installed ${target})
    install(CODE "if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
      message(FATAL_ERROR \"${target} is not built yet, nothing was installed; first: cmake --build ${PROJECT_BINARY_DIR} --target installed\")
    endif()" COMPONENT ${component})
  endforeach()
endforeach()
install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(TARGETS tandem_shared EXPORT tandem LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS tandem_runtime_shared EXPORT tandem LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
foreach(component ${components})  # the modules, which are opened at run time
  list(REMOVE_ITEM targets_${component} tandem tandem_shared tandem_runtime_shared)
  if(targets_${component})
    install(TARGETS ${targets_${component}} LIBRARY DESTINATION ${TANDEM_MODULE_FOLDER} COMPONENT ${component})
  endif()
endforeach()
foreach(header IN LISTS TANDEM_PUBLIC_HEADERS)  # one by one: the build folder may hold some of an older list
  string(REGEX REPLACE "^tandem/" "" name ${header})
  get_filename_component(folder ${name} DIRECTORY)
  install(FILES ${headers}/tandem/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder} COMPONENT development)
endforeach()
install(FILES LICENSE LICENSES.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
if(NOT CMAKE_CROSSCOMPILING)
  install(CODE "set(tandem_program \"$<TARGET_FILE:tandem>\")
    set(man \"${CMAKE_INSTALL_MANDIR}\")
    set(data \"${CMAKE_INSTALL_DATADIR}\")
    set(pages \"${PROJECT_BINARY_DIR}/pages\")" COMPONENT program)
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install-pages.cmake COMPONENT program)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(EXPORT tandem FILE tandemTargets.cmake NAMESPACE tandem:: DESTINATION ${package} COMPONENT development)
configure_package_config_file(cmake/tandemConfig.cmake.in ${PROJECT_BINARY_DIR}/tandemConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_BINDIR TANDEM_MODULE_FOLDER)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandemConfig.cmake ${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake
  DESTINATION ${package} COMPONENT development)
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})  # so that the prefix may move
configure_file(cmake/tandem.pc.in ${PROJECT_BINARY_DIR}/tandem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
include(cmake/packages.cmake)
