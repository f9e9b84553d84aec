# Finds torch by its directory, without find_package(Torch), which would bring protobuf, CUDA and a second of configuring.
# Defines the interface target titan::torch_api, and TITAN_TORCH_DIR, TITAN_TORCH_VERSION.

set(TITAN_TORCH_DIR ${TITAN_TORCH})
if(NOT TITAN_TORCH AND EXISTS ${CMAKE_SOURCE_DIR}/build/torch_dir)
  # What tools/setup.sh chose.
  file(STRINGS ${CMAKE_SOURCE_DIR}/build/torch_dir TITAN_TORCH_DIR LIMIT_COUNT 1)
elseif(NOT TITAN_TORCH)
  file(GLOB TITAN_TORCH_DIR ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
endif()
if(NOT EXISTS "${TITAN_TORCH_DIR}/include/ATen/core/Tensor.h" OR NOT EXISTS "${TITAN_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR
    "No torch in '${TITAN_TORCH_DIR}': include/ATen/core/Tensor.h and lib/libtorch_cpu.so are expected there. "
    "Run `make setup`, or pass -DTITAN_TORCH=DIR, the directory of the Python package torch or of libtorch.")
endif()

file(STRINGS ${TITAN_TORCH_DIR}/include/torch/headeronly/version.h version_lines REGEX "^  \"[0-9]")
string(REGEX MATCH "[0-9]+\\.[0-9]+[^\"]*" TITAN_TORCH_VERSION "${version_lines}")

# torch brings its own OpenMP runtime; a second one in the process would run a second pool of threads.
file(GLOB titan_gomp ${TITAN_TORCH_DIR}/lib/libgomp*.so* ${TITAN_TORCH_DIR}/../torch.libs/libgomp*.so*)
if(NOT titan_gomp)
  set(titan_gomp gomp)
endif()
list(GET titan_gomp 0 titan_gomp)
set(titan_torch_rpath ${TITAN_TORCH_DIR}/lib)
if(IS_ABSOLUTE ${titan_gomp})
  get_filename_component(titan_gomp_folder ${titan_gomp} DIRECTORY)
  list(APPEND titan_torch_rpath ${titan_gomp_folder})
  list(REMOVE_DUPLICATES titan_torch_rpath)
endif()

add_library(titan_torch_api INTERFACE)
target_include_directories(titan_torch_api SYSTEM INTERFACE
  ${TITAN_TORCH_DIR}/include ${TITAN_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(titan_torch_api INTERFACE AT_PER_OPERATOR_HEADERS)
target_compile_options(titan_torch_api INTERFACE -fopenmp)
target_link_libraries(titan_torch_api INTERFACE
  ${TITAN_TORCH_DIR}/lib/libtorch_cpu.so ${TITAN_TORCH_DIR}/lib/libc10.so ${titan_gomp})
message(STATUS "torch ${TITAN_TORCH_VERSION} in ${TITAN_TORCH_DIR}")
