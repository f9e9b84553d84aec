# `cmake --install` makes a copy that runs from anywhere: bin/titan, lib/, include/titan (user modules compile against
# it), share/titan (the bundled data).

set(installed)
foreach(target IN ITEMS titan_core titan_nki titan titan_neuron titan_program)
  if(TARGET ${target})
    list(APPEND installed ${target})
  endif()
endforeach()
if(installed)
  install(TARGETS ${installed} RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/titan DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/tests/assets DESTINATION share/titan/tests OPTIONAL)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/titan)
