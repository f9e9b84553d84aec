# bench/NAME.cpp becomes the program bench_NAME.

find_path(TITAN_BENCHMARK_INCLUDE benchmark/benchmark.h)
find_library(TITAN_BENCHMARK_LIBRARY benchmark)
if(NOT TITAN_BENCHMARK_INCLUDE OR NOT TITAN_BENCHMARK_LIBRARY)
  message(FATAL_ERROR "benchmark/benchmark.h is missing. Run `make setup`, or: sudo apt-get install libbenchmark-dev")
endif()
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.cpp)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(bench_${name} ${source})
  target_compile_options(bench_${name} PRIVATE ${titan_warnings})
  target_link_libraries(bench_${name} PRIVATE titan ${TITAN_BENCHMARK_LIBRARY})
endforeach()
