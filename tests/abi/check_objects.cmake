# Run with cmake -P: looks at the code that the build made.
#   OBJDUMP NM
#   UNFUSED   ;-list of objects without any fused multiply-add
#   FUSED     an object with one: proof that the search finds them
#   BUILD     build tree: no weak function in any instruction set's object there
cmake_policy(VERSION 3.25)

set(fma "vf(n?m(add|sub)|m(addsub|subadd))[0-9]+[ps][sd]")
function(disassemble object)
  execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn ${object} OUTPUT_VARIABLE code RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT code MATCHES "multiply_add")
    message(FATAL_ERROR "${object}: not disassembled")
  endif()
  set(code "${code}" PARENT_SCOPE)
endfunction()

disassemble(${FUSED})
if(NOT code MATCHES "${fma}")
  message(FATAL_ERROR "${FUSED}: expected a fused multiply-add; the search does not find them")
endif()
foreach(object IN LISTS UNFUSED)
  disassemble(${object})
  if(code MATCHES "${fma}")
    message(FATAL_ERROR "${object}: contraction is on, found ${CMAKE_MATCH_0}")
  endif()
endforeach()

file(GLOB_RECURSE joined ${BUILD}/*.isa.o)
list(LENGTH joined n)
if(n LESS 3)
  message(FATAL_ERROR "expected the objects of three instruction sets at least, found ${n}")
endif()
foreach(object IN LISTS joined)
  execute_process(COMMAND ${NM} --defined-only --format=sysv ${object} OUTPUT_VARIABLE symbols)
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(line IN LISTS symbols)
    if(line MATCHES "\\| *[WVu] *\\|" AND NOT line MATCHES "\\|\\.(bss|tbss|tdata|data)[^|]*$")
      message(FATAL_ERROR "${object}: weak symbol ${line}")
    elseif(line MATCHES "\\| *W *\\| *FUNC")
      message(FATAL_ERROR "${object}: weak function ${line}")
    endif()
  endforeach()
endforeach()
message(STATUS "${n} joined objects are clean")
