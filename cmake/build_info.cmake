# Run at build time: writes OUTPUT (titan_build_info.inc) from what configuring passed and the present commit, and
# touches it only where something changed.

find_program(git git)
set(commit unknown)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE_DIR} describe --always --dirty --abbrev=10 --exclude=*
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
set(text "")
foreach(name IN ITEMS VERSION COMPILER COMPILER_VERSION BUILD_TYPE TORCH_VERSION TORCH_DIR SOURCE_DIR)
  string(APPEND text "#define TITAN_${name} \"${${name}}\"\n")
endforeach()
string(APPEND text "#define TITAN_COMMIT \"${commit}\"\n")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
