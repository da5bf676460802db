# One way to declare a folder's library, its tests and its fuzz targets.
#
#   paceline_library(NAME wire HDRS codec.h SRCS codec.cc DEPS paceline_base PUBLIC_DEPS fmt::fmt)
#     makes the target paceline_wire (DEPS are public: headers of a folder may use its dependencies).
#   paceline_test(NAME wire SRCS codec_test.cc DEPS paceline_wire [LABELS unit])
#     makes the binary paceline_wire_test, one per folder; label unit unless said otherwise.
#   paceline_fuzzer(NAME frame SRCS frame_fuzz.cc DEPS paceline_wire)
#     makes fuzz_frame where PACELINE_FUZZ is on.
include(GoogleTest)

# What is under test is optimized, the tests themselves need not be.
set(PACELINE_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)
paceline_precompiled_headers(NAME tests PROGRAMS LINK GTest::gtest GTest::gmock fmt::fmt OPTIONS ${PACELINE_TEST_OPTIONS}
  HEADERS <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <tl/expected.hpp> <string> <vector>)
if(PACELINE_WITH_OPENVINO)
  paceline_precompiled_headers(NAME openvino LINK openvino::runtime fmt::fmt
    HEADERS <openvino/core/model.hpp> <openvino/op/constant.hpp> <openvino/op/parameter.hpp> <openvino/op/result.hpp>
            <openvino/runtime/core.hpp> <fmt/format.h> <tl/expected.hpp> <string> <vector>)
endif()

function(paceline_library)
  cmake_parse_arguments(ARG "" "NAME" "HDRS;SRCS;DEPS" ${ARGN})
  set(target paceline_${ARG_NAME})
  if(ARG_SRCS)
    add_library(${target} STATIC ${ARG_SRCS} ${ARG_HDRS})
    target_link_libraries(${target} PUBLIC ${ARG_DEPS} PRIVATE paceline_options)
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_DEPS})
    target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR}/src)
  endif()
endfunction()

function(paceline_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SRCS;DEPS;LABELS;ARGS" ${ARGN})
  set(target paceline_${ARG_NAME}_test)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${target} ${ARG_SRCS})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} paceline_options GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${PACELINE_TEST_OPTIONS})
  paceline_use_precompiled_headers(${target} tests)
  target_compile_definitions(${target} PRIVATE PACELINE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${ARG_NAME} COMMAND ${target} ${ARG_ARGS})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

function(paceline_fuzzer)
  if(NOT PACELINE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  set(target fuzz_${ARG_NAME})
  add_executable(${target} ${ARG_SRCS})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} paceline_options)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)  # all of them, and nothing else
  endif()
  add_dependencies(fuzzers ${target})
endfunction()
