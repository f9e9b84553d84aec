# The compiler, its flags and the tools around it.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR
    "titan needs g++ 12 or newer; ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_VERSION}. Set CXX to a newer one.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# The built tree and an installed copy have the same shape, so one run path serves both.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

find_program(TITAN_CCACHE ccache)
if(TITAN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TITAN_CCACHE})
  if(TITAN_PCH AND NOT TITAN_UNITY)
    # Without this ccache keeps nothing that was compiled with a precompiled header.
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
endif()
find_program(TITAN_MOLD mold)
if(TITAN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# g++ contracts even intrinsics into fused multiply-adds, which changes results; only explicit ones are wanted.
# Interposing our functions is not supported, which lets the compiler inline them within a file.
add_compile_options(-ffp-contract=off -fno-semantic-interposition)
# Reports need lines and no more; what they find ends the program.
set(titan_sanitizer_options -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
if(TITAN_SANITIZE)
  add_compile_options(-fsanitize=${TITAN_SANITIZE} ${titan_sanitizer_options})
  add_link_options(-fsanitize=${TITAN_SANITIZE})
endif()

set(titan_warnings -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
# g++ 12 and 13 see these two where they are not: in std::string members of aggregates, and in string insertion.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  list(APPEND titan_warnings -Wno-maybe-uninitialized -Wno-restrict)
endif()
if(TITAN_WERROR)
  list(APPEND titan_warnings -Werror)
endif()
