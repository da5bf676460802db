# Third-party packages: Debian's, and OpenVINO from the project's own .venv (scripts/setup makes it).
# docs/dependencies.md says why each was chosen.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(GTest REQUIRED)
find_package(SQLite3 3.38 REQUIRED)

# Its own CMake package asks for what its HTTP server and its push client need; the core needs nothing.
find_path(PACELINE_PROMETHEUS_INCLUDE prometheus/registry.h REQUIRED)
find_library(PACELINE_PROMETHEUS_CORE prometheus-cpp-core REQUIRED)
add_library(Paceline::prometheus UNKNOWN IMPORTED)
set_target_properties(Paceline::prometheus PROPERTIES
  IMPORTED_LOCATION ${PACELINE_PROMETHEUS_CORE} INTERFACE_INCLUDE_DIRECTORIES ${PACELINE_PROMETHEUS_INCLUDE})

if(PACELINE_WITH_OPENVINO)
  find_package(CLI11 REQUIRED)
  find_path(PACELINE_TOML_INCLUDE toml++/toml.h REQUIRED)  # header only
  if(NOT OpenVINO_DIR)
    execute_process(
      COMMAND ${CMAKE_SOURCE_DIR}/.venv/bin/python -c
              "from openvino.utils import get_cmake_path; print(get_cmake_path())"
      OUTPUT_VARIABLE OpenVINO_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(OpenVINO_DIR ${OpenVINO_DIR} CACHE PATH "OpenVINO's CMake package")
  endif()
  find_package(OpenVINO REQUIRED COMPONENTS Runtime Threading)
  get_target_property(PACELINE_OPENVINO_LIBRARY openvino::runtime IMPORTED_LOCATION_RELEASE)
  get_filename_component(PACELINE_OPENVINO_LIB_DIR ${PACELINE_OPENVINO_LIBRARY} DIRECTORY)
  list(APPEND CMAKE_BUILD_RPATH ${PACELINE_OPENVINO_LIB_DIR})
  list(APPEND CMAKE_INSTALL_RPATH ${PACELINE_OPENVINO_LIB_DIR})
endif()
