# Language level, warnings, sanitizers and build-wide switches.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# Several worktrees, and presets that differ in nothing for a file, share what is compiled.
find_program(PACELINE_CCACHE ccache)
if(PACELINE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PACELINE_CCACHE})
endif()

option(PACELINE_WERROR "Treat warnings as errors" ON)
option(PACELINE_WITH_OPENVINO "Build compiler, engines and the programs (off under tsan: OpenVINO and TBB are not instrumented)" ON)
option(PACELINE_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(PACELINE_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

add_library(paceline_options INTERFACE)
target_compile_options(paceline_options INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion
                                                  -Wnon-virtual-dtor -Woverloaded-virtual)
target_include_directories(paceline_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
# gcc 12's optimizer warns of accesses inside std::string and tl::expected that cannot happen (its
# bugs 105651, 105329 and kin); later versions and clang do not.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(paceline_options INTERFACE -Wno-restrict -Wno-array-bounds
                                                    -Wno-stringop-overflow -Wno-free-nonheap-object)
endif()
if(PACELINE_WERROR)
  target_compile_options(paceline_options INTERFACE -Werror)
endif()
if(PACELINE_SANITIZE)
  add_compile_options(-fsanitize=${PACELINE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PACELINE_SANITIZE})
  if(PACELINE_SANITIZE MATCHES "thread")
    # gcc's tsan knows no fences; Asio's queue is locked by mutexes, which it does know.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()
if(PACELINE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
