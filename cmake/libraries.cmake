# libtitan_core.so and libtitan_nki.so (torch-free), libtitan.so (on torch), libtitan_neuron.so (the emulated device, a plug-in that
# libtitan.so opens when a run asks for it) and the program titan. Folders are globbed: a new file is
# picked up by the next build. A library without sources is left out.

# Files named *_avx2.cpp and *_avx512.cpp are compiled for those instructions and chosen at run time.
function(titan_isa_sources sources_name)
  set(kept)
  foreach(source IN LISTS ${sources_name})
    if(source MATCHES "_avx2\\.cpp$")
      set(flags -mavx2 -mfma -mf16c)
    elseif(source MATCHES "_avx512\\.cpp$")
      set(flags -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl)
    else()
      list(APPEND kept ${source})
      continue()
    endif()
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${flags}" SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
      list(APPEND kept ${source})
    endif()
  endforeach()
  set(${sources_name} ${kept} PARENT_SCOPE)
endfunction()

set(core_layers base config launch data recipes neuron/rt)
set(torch_layers ops nn distributed models checkpoint train)
list(TRANSFORM core_layers REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/titan/\\1/*.cpp" OUTPUT_VARIABLE core_globs)
list(TRANSFORM torch_layers REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/titan/\\1/*.cpp" OUTPUT_VARIABLE torch_globs)

file(GLOB_RECURSE config_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/titan/*_config.cpp)
file(GLOB_RECURSE core_sources CONFIGURE_DEPENDS ${core_globs} ${CMAKE_SOURCE_DIR}/apps/titan/commands/*.cpp)
file(GLOB_RECURSE torch_sources CONFIGURE_DEPENDS ${torch_globs} ${CMAKE_SOURCE_DIR}/apps/titan/torch_commands/*.cpp)
# Torch-free files of torch layers beside their *_config.cpp: what `titan config` counts, compares and checks.
list(APPEND config_sources
  ${CMAKE_SOURCE_DIR}/titan/distributed/mesh.cpp
  ${CMAKE_SOURCE_DIR}/titan/models/families.cpp
  ${CMAKE_SOURCE_DIR}/titan/models/common/check_tensor_parallel.cpp
  ${CMAKE_SOURCE_DIR}/titan/models/common/model_size.cpp
  ${CMAKE_SOURCE_DIR}/titan/train/check_assets.cpp)
list(APPEND core_sources ${config_sources})
list(REMOVE_DUPLICATES core_sources)
if(config_sources)
  list(REMOVE_ITEM torch_sources ${config_sources})
endif()
titan_isa_sources(core_sources)
titan_isa_sources(torch_sources)

if(core_sources)
  add_library(titan_core SHARED ${core_sources})
  target_include_directories(titan_core PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(titan_core PRIVATE ${titan_warnings})
  target_link_libraries(titan_core PRIVATE titan_dependencies)
  set_target_properties(titan_core PROPERTIES INSTALL_RPATH "$ORIGIN")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/titan/base/file.cpp PROPERTIES
    COMPILE_DEFINITIONS "TITAN_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\"")
  # Only build_info.cpp sees the commit, so that a commit recompiles one small file.
  set(build_info ${CMAKE_BINARY_DIR}/generated/titan_build_info.inc)
  add_custom_target(titan_build_info BYPRODUCTS ${build_info}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${build_info} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
      -DCOMPILER=${CMAKE_CXX_COMPILER} "-DCOMPILER_VERSION=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
      -DBUILD_TYPE=${CMAKE_BUILD_TYPE} -DTORCH_VERSION=${TITAN_TORCH_VERSION} -DTORCH_DIR=${TITAN_TORCH_DIR}
      -P ${CMAKE_SOURCE_DIR}/cmake/build_info.cmake
    VERBATIM)
  add_dependencies(titan_core titan_build_info)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/titan/base/build_info.cpp PROPERTIES
    INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/generated)
endif()

file(GLOB_RECURSE nki_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/titan/nki/*.cpp ${CMAKE_SOURCE_DIR}/titan/nkilib/*.cpp)
titan_isa_sources(nki_sources)
if(nki_sources)
  add_library(titan_nki SHARED ${nki_sources})
  target_include_directories(titan_nki PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(titan_nki PRIVATE ${titan_warnings})
  target_link_libraries(titan_nki PUBLIC titan_core)
  set_target_properties(titan_nki PROPERTIES INSTALL_RPATH "$ORIGIN")
  if(TITAN_UNITY)
    set_target_properties(titan_nki PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endif()

if(torch_sources)
  add_library(titan SHARED ${torch_sources})
  target_compile_options(titan PRIVATE ${titan_warnings})
  target_link_libraries(titan PUBLIC titan_torch_api)
  target_include_directories(titan PUBLIC ${CMAKE_SOURCE_DIR})
  foreach(library IN ITEMS titan_core titan_nki)
    if(TARGET ${library})
      target_link_libraries(titan PUBLIC ${library})
    endif()
  endforeach()
  set_target_properties(titan PROPERTIES INSTALL_RPATH "$ORIGIN;${titan_torch_rpath}")
  # torch has the code of Gloo but not its headers.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/titan/distributed/gloo_group.cpp PROPERTIES
    COMPILE_DEFINITIONS USE_C10D_GLOO INCLUDE_DIRECTORIES ${TITAN_GLOO_INCLUDE})
  # c10d's header of backends brings all of ATen, whose names other files of a batch would meet.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/titan/distributed/shared_memory_backend.cpp PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
  if(TITAN_UNITY)
    set_target_properties(titan PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  elseif(TITAN_PCH)
    target_precompile_headers(titan PRIVATE <ATen/core/Tensor.h> <string> <vector> <functional> <span>)
    target_compile_options(titan PRIVATE -fpch-preprocess)
  endif()
endif()

file(GLOB neuron_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/titan/neuron/torch/*.cpp)
if(neuron_sources)
  add_library(titan_neuron SHARED ${neuron_sources})
  target_compile_options(titan_neuron PRIVATE ${titan_warnings})
  target_link_libraries(titan_neuron PRIVATE titan_torch_api titan_core)
  set_target_properties(titan_neuron PROPERTIES INSTALL_RPATH "$ORIGIN;${titan_torch_rpath}")
  if(TITAN_UNITY)
    set_target_properties(titan_neuron PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endif()

if(EXISTS ${CMAKE_SOURCE_DIR}/apps/titan/main.cpp)
  add_executable(titan_program apps/titan/main.cpp)
  target_include_directories(titan_program PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(titan_program PRIVATE ${titan_warnings})
  target_link_libraries(titan_program PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(titan_program PROPERTIES OUTPUT_NAME titan
    BUILD_RPATH "$ORIGIN/../lib" INSTALL_RPATH "$ORIGIN/../lib")
  # The program opens the libraries at run time; building it builds them.
  foreach(library IN ITEMS titan_core titan titan_neuron)
    if(TARGET ${library})
      add_dependencies(titan_program ${library})
    endif()
  endforeach()
endif()
