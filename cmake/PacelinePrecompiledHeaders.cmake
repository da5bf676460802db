# Heavy headers compiled once per build instead of once per file; the release preset switches it on.
#
# Not for dev: there each file must name what it uses, and ccache does better without.
#
#   paceline_precompiled_headers(NAME openvino LINK openvino::runtime HEADERS <openvino/core/model.hpp> ...)
#     declares a set; PROGRAMS says that it is for executables, which are compiled with -fPIE.
#   paceline_use_precompiled_headers(TARGET NAME)
#     uses it in a target that has the same compile options.
option(PACELINE_PRECOMPILED_HEADERS "Compile heavy headers once" OFF)

function(paceline_precompiled_headers)
  if(NOT PACELINE_PRECOMPILED_HEADERS)
    return()
  endif()
  cmake_parse_arguments(ARG "PROGRAMS" "NAME" "LINK;HEADERS;OPTIONS" ${ARGN})
  set(target paceline_headers_${ARG_NAME})
  set(empty_source ${CMAKE_BINARY_DIR}/generated/headers_${ARG_NAME}.cc)
  file(GENERATE OUTPUT ${empty_source} CONTENT "")
  add_library(${target} OBJECT ${empty_source})
  target_link_libraries(${target} PRIVATE ${ARG_LINK} paceline_options)
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  if(ARG_PROGRAMS)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIE)
  endif()
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
endfunction()

function(paceline_use_precompiled_headers target name)
  if(TARGET paceline_headers_${name})
    target_precompile_headers(${target} REUSE_FROM paceline_headers_${name})
  endif()
endfunction()
