# How Ingot's own targets are built: warnings, reproducible paths, ccache, sanitizers, one precompiled header for the
# folders that include MLIR, and the functions that declare a compiler library, a program and a unit test.
find_program(INGOT_CCACHE ccache)
if(INGOT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${INGOT_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

add_library(ingot_flags INTERFACE)
target_compile_options(ingot_flags INTERFACE -Wall -Wextra -Wno-unused-parameter
  "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${CMAKE_BINARY_DIR}/=build/")
target_include_directories(ingot_flags INTERFACE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}/runtime/include")

# What every folder of the compiler is built with: LLVM's headers and flags, no exceptions unless EXCEPTIONS is given.
add_library(ingot_compiler_flags INTERFACE)
target_link_libraries(ingot_compiler_flags INTERFACE ingot_flags)
target_include_directories(ingot_compiler_flags SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(ingot_compiler_flags INTERFACE ${definitions})
if(INGOT_SANITIZE)
  target_compile_options(ingot_compiler_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr,function
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(ingot_compiler_flags INTERFACE -fsanitize=address,undefined)
  add_library(ingot_sanitizer_options OBJECT "${CMAKE_CURRENT_LIST_DIR}/sanitizer_options.cpp")
  target_link_libraries(ingot_compiler_flags INTERFACE
    "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:ingot_sanitizer_options>>")
endif()

# ingot_add_library(NAME SOURCES ... [LINKS ...] [DEPENDS ...] [EXCEPTIONS] [NO_MLIR])
# One static library per folder. NO_MLIR: the folder includes LLVM's support headers only and needs no precompiled header.
function(ingot_add_library name)
  cmake_parse_arguments(ARG "EXCEPTIONS;NO_MLIR" "" "SOURCES;LINKS;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ingot_compiler_flags ${ARG_LINKS})
  if(ARG_EXCEPTIONS)
    target_compile_options(${name} PRIVATE -fexceptions)
  else()
    target_compile_options(${name} PRIVATE -fno-exceptions)
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  if(NOT ARG_NO_MLIR)
    target_precompile_headers(${name} PRIVATE "${CMAKE_SOURCE_DIR}/tools/cmake/precompiled.h")
    target_compile_options(${name} PRIVATE -fpch-instantiate-templates -Xclang -fno-pch-timestamp)
  endif()
endfunction()

# ingot_add_program(NAME SOURCES ... LINKS ...): a program in bin/, linked with the shared MLIR and LLVM; those of tools/
# are installed.
# It looks for them beside itself first (a package) and where it was built second. DT_RPATH, unlike DT_RUNPATH, holds
# for the libraries of these libraries too.
function(ingot_add_program name)
  cmake_parse_arguments(ARG "NO_MLIR" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ingot_compiler_flags ${ARG_LINKS})
  if(NOT ARG_NO_MLIR)
    target_link_libraries(${name} PRIVATE MLIR)
    target_compile_options(${name} PRIVATE -fno-exceptions)
  endif()
  target_link_libraries(${name} PRIVATE LLVM)
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;${LLVM_LIBRARY_DIR}")
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/tools/")
    install(TARGETS ${name} RUNTIME DESTINATION bin)
  endif()
endfunction()

# ingot_add_unit_test(NAME SOURCES ... [LINKS ...] [ARGS ...] [RUNTIME] [EXCEPTIONS] [NO_MLIR] [TIMEOUT SECONDS])
# A GoogleTest program in build/test/unit and the ctest unit.NAME that runs it. RUNTIME: it tests parts of the runtime,
# so it is built like them, without LLVM; the parts' object libraries are given as LINKS.
find_package(GTest REQUIRED)
function(ingot_add_unit_test name)
  cmake_parse_arguments(ARG "RUNTIME;EXCEPTIONS;NO_MLIR" "TIMEOUT" "SOURCES;LINKS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/test/unit")
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gtest_main)
  if(ARG_RUNTIME)
    # The runtime's objects are not position independent.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_link_libraries(${name} PRIVATE ingot_flags)
    target_link_options(${name} PRIVATE -no-pie)
  else()
    target_link_libraries(${name} PRIVATE ingot_compiler_flags)
    if(NOT ARG_NO_MLIR)
      target_link_libraries(${name} PRIVATE MLIR)
    endif()
    target_link_libraries(${name} PRIVATE LLVM)
    if(NOT ARG_EXCEPTIONS)
      target_compile_options(${name} PRIVATE -fno-exceptions)
    endif()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME unit.${name} COMMAND ${name} ${ARG_ARGS})
  # As in test/lit.cfg.py: who reads freed memory is seen.
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.perturb=165)
endfunction()
