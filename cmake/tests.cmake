# One program per library under test, one ctest entry per test file; scripts are registered by name.

enable_testing()
find_path(TITAN_DOCTEST_INCLUDE doctest/doctest.h)
if(NOT TITAN_DOCTEST_INCLUDE)
  message(FATAL_ERROR "doctest/doctest.h is missing. Run `make setup`, or: sudo apt-get install doctest-dev")
endif()

add_library(titan_test_main OBJECT ${CMAKE_SOURCE_DIR}/tests/unit/main.cpp)

# titan_unit_tests(PROGRAM LIBRARY LAYER...): the program links LIBRARY and holds the test files of the LAYERs.
function(titan_unit_tests program library)
  if(NOT TARGET ${library})
    return()
  endif()
  list(TRANSFORM ARGN REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/tests/unit/\\1/*.cpp" OUTPUT_VARIABLE globs)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${globs})
  if(NOT sources)
    return()
  endif()
  add_executable(${program} ${sources})
  target_link_libraries(${program} PRIVATE titan_test_main ${library} titan_dependencies)
  target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${program} PRIVATE ${titan_warnings})
  if(program STREQUAL "unit_torch")
    # The same tests run on the emulated device too, but for those that make no tensor, need FP8 of four bits of
    # exponent, which trn2 does not have, or bring a device or a thread of their own.
    target_sources(${program} PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit/default_device.cpp)
    add_dependencies(${program} titan_neuron)
    set(also_on_neuron "^(ops|nn|models|distributed|checkpoint|train)\\.")
    string(JOIN "|" not_on_neuron ops.kernels ops.threads nn.placement models.check_tensor_parallel
      distributed.launch_environment distributed.mesh checkpoint.checkpoint_config checkpoint.safetensors
      checkpoint.step_folders checkpoint.block_quantized checkpoint.tensor_bytes train.log_line train.lr_scheduler
      train.memory_check train.metrics train.neuron_device train.profiler train.run_environment train.shape_check train.tensorboard)
  endif()
  if(library STREQUAL "titan")
    target_compile_options(${program} PRIVATE -include ${CMAKE_SOURCE_DIR}/tests/unit/torch_prelude.h)
    if(TITAN_UNITY)
      set_target_properties(${program} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    endif()
  endif()
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "_test\\.cpp$")
      continue()
    endif()
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/tests/unit ${source})
    string(REGEX REPLACE "_test\\.cpp$" "" name ${name})
    string(REPLACE "/" "." name ${name})
    add_test(NAME unit.${name} COMMAND ${program} --source-file=*${source} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(unit.${name} PROPERTIES TIMEOUT 120
      FAIL_REGULAR_EXPRESSION "test cases: +0 " ENVIRONMENT "${titan_test_environment}")
    if(also_on_neuron AND name MATCHES "${also_on_neuron}" AND NOT name MATCHES "${not_on_neuron}")
      add_test(NAME neuron.${name} COMMAND ${program} --source-file=*${source} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set_tests_properties(neuron.${name} PROPERTIES TIMEOUT 180 ENVIRONMENT
        "${titan_test_environment};TITAN_TEST_DEVICE=neuron;TORCH_NEURONX_NEFF_DISABLE_CACHE=1;TITAN_NEURON_STATE_DIR=${CMAKE_BINARY_DIR}/neuron_tests/${name}")
    endif()
  endforeach()
endfunction()

set(titan_test_environment
  "TITAN=${CMAKE_BINARY_DIR}/bin/titan;TITAN_SOURCE_DIR=${CMAKE_SOURCE_DIR};TITAN_BUILD_DIR=${CMAKE_BINARY_DIR}")
titan_unit_tests(unit_core titan_core base config launch data recipes neuron/rt)
titan_unit_tests(unit_nki titan_nki nki nkilib)
titan_unit_tests(unit_torch titan ops nn distributed models checkpoint train)
titan_unit_tests(unit_neuron titan neuron/torch)
if(TARGET unit_neuron)
  add_dependencies(unit_neuron titan_neuron)
endif()

# The simulator and its tests under the sanitizers, whatever the rest is built with: `make sanitize`. One program without
# our libraries, because what is not instrumented cannot load what is.
if(TARGET unit_nki AND NOT TITAN_SANITIZE)
  file(GLOB base_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/titan/base/*.cpp)
  list(REMOVE_ITEM base_sources ${CMAKE_SOURCE_DIR}/titan/base/build_info.cpp)
  add_library(nki_sanitized OBJECT EXCLUDE_FROM_ALL ${nki_sources})
  set_target_properties(nki_sanitized PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(nki_tests unit_nki SOURCES)
  add_executable(unit_nki_sanitized EXCLUDE_FROM_ALL ${base_sources} ${nki_tests} tests/unit/main.cpp)
  target_link_libraries(unit_nki_sanitized PRIVATE nki_sanitized titan_dependencies)
  foreach(target IN ITEMS nki_sanitized unit_nki_sanitized)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_options(${target} PRIVATE ${titan_warnings} ${titan_sanitizer_options} -fsanitize=address,undefined)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endforeach()
endif()

# Libraries that bring a device, most of them wrong in one way each, which tests name as TITAN_NEURON_PROVIDER.
file(GLOB providers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/neuron_providers/*.cpp)
if(NOT TARGET titan)
  set(providers)
endif()
foreach(source IN LISTS providers)
  get_filename_component(name ${source} NAME_WE)
  add_library(neuron_provider_${name} MODULE ${source})
  target_link_libraries(neuron_provider_${name} PRIVATE titan_torch_api)
  target_include_directories(neuron_provider_${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(neuron_provider_${name} PRIVATE ${titan_warnings})
  set_target_properties(neuron_provider_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/neuron_providers)
  add_dependencies(unit_torch neuron_provider_${name})
endforeach()

find_program(TITAN_PYTHON python3 PATHS ${CMAKE_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
find_program(TITAN_PYTHON python3)

# titan_script_test(NAME SECONDS PROCESSORS COMMAND...): a test that is a program of its own; PROCESSORS is what it keeps
# busy, so that ctest runs no more beside it than the machine carries.
function(titan_script_test name seconds processors)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} PROCESSORS ${processors}
    ENVIRONMENT "${titan_test_environment};PYTHONDONTWRITEBYTECODE=1")
endfunction()

# Programs that the scripts of tests/ranks start once a rank.
file(GLOB rank_programs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/ranks/*_main.cpp)
foreach(source IN LISTS rank_programs)
  get_filename_component(name ${source} NAME)
  string(REGEX REPLACE "_main\\.cpp$" "" name ranks_${name})
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE titan)
  target_compile_options(${name} PRIVATE ${titan_warnings})
endforeach()

if(TARGET titan)
  add_executable(bench_collectives EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/collectives_main.cpp)
  target_link_libraries(bench_collectives PRIVATE titan)
  target_compile_options(bench_collectives PRIVATE ${titan_warnings})
endif()
if(TARGET titan_nki AND TARGET titan)
  add_executable(bench_nki EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/nki_main.cpp)
  target_link_libraries(bench_nki PRIVATE titan_nki titan)
  target_compile_options(bench_nki PRIVATE ${titan_warnings})
endif()
if(TARGET titan_neuron)
  add_executable(bench_neuron_ops EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/neuron_ops_main.cpp)
  target_link_libraries(bench_neuron_ops PRIVATE titan)
  target_compile_options(bench_neuron_ops PRIVATE ${titan_warnings})
  add_dependencies(bench_neuron_ops titan_neuron)
endif()

foreach(kind IN ITEMS cli oracle ranks)
  file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${kind}/*_test.py)
  foreach(script IN LISTS scripts)
    get_filename_component(name ${script} NAME)
    string(REGEX REPLACE "_test\\.py$" "" name ${name})
    titan_script_test(${kind}.${name} 900 2 ${TITAN_PYTHON} ${script})
  endforeach()
endforeach()
# 64 processes, which a machine of any size feels.
set_tests_properties(ranks.nki_guide PROPERTIES RUN_SERIAL ON)

set(tools ${CMAKE_SOURCE_DIR}/tools)
titan_script_test(check.layering 60 1 ${TITAN_PYTHON} ${tools}/check_layering.py)
titan_script_test(check.words 60 1 ${TITAN_PYTHON} ${tools}/check_words.py)
titan_script_test(check.format 120 1 ${tools}/check_format.sh)
titan_script_test(check.headers 900 2 ${TITAN_PYTHON} ${tools}/check_headers.py ${CMAKE_BINARY_DIR})

file(GLOB documents CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/docs/*.md)
foreach(document IN LISTS documents)
  get_filename_component(name ${document} NAME_WE)
  titan_script_test(docs.${name} 900 2 ${TITAN_PYTHON} ${tools}/run_docs.py ${document} ${CMAKE_BINARY_DIR})
endforeach()
