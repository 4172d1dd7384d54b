# Run with cmake -P: joins the objects of one instruction set into one, in which no inline function can be mistaken for the
# baseline's copy of it.
#
#   LINKER NM OBJCOPY READELF   the binutils
#   OBJECTS                     ;-list of objects
#   OUTPUT                      the joined object
#   SANITIZED                   true when the compiler adds constructors of its own
#
# An inline function or template that two objects need is emitted in both as a weak symbol, and the linker keeps whichever it
# sees first. If that is the AVX-512 copy, baseline code runs AVX-512 instructions. So every weak function and every weak
# read-only object (vtables hold function addresses) becomes local here. Weak variables stay shared: an inline function's
# static, such as the SDK's host slot, must remain one object in the whole library.
cmake_policy(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    file(REMOVE ${OUTPUT})
    string(REPLACE ";" " " line "${ARGN}")
    message(FATAL_ERROR "failed: ${line}\n${out}${err}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

# Splits the defined weak symbols of `object` into those that must be local and those that are shared variables.
function(weak_symbols object local_out shared_out)
  run(${NM} --defined-only --format=sysv ${object})
  set(local "")
  set(shared "")
  string(REPLACE ";" "," output "${output}")
  string(REPLACE "\n" ";" lines "${output}")
  foreach(line IN LISTS lines)
    # name|value|class|type|size|line|section
    if(line MATCHES "^([^|]+)\\|[^|]*\\| *([WVu]) *\\|[^|]*\\|[^|]*\\|[^|]*\\|(.*)$")
      string(STRIP "${CMAKE_MATCH_1}" name)
      set(section "${CMAKE_MATCH_3}")
      if(section MATCHES "^\\.(bss|data|tbss|tdata)" AND NOT section MATCHES "^\\.data\\.rel\\.ro")
        list(APPEND shared "${name}")
      else()
        list(APPEND local "${name}")
      endif()
    endif()
  endforeach()
  set(${local_out} "${local}" PARENT_SCOPE)
  set(${shared_out} "${shared}" PARENT_SCOPE)
endfunction()

run(${LINKER} -r --force-group-allocation -o ${OUTPUT} ${OBJECTS})
weak_symbols(${OUTPUT} local shared)
if(local)
  list(JOIN local "\n" text)
  file(WRITE ${OUTPUT}.local "${text}\n")
  run(${OBJCOPY} --localize-symbols=${OUTPUT}.local ${OUTPUT})
  weak_symbols(${OUTPUT} local shared)
  if(local)
    file(REMOVE ${OUTPUT})
    message(FATAL_ERROR "${OUTPUT}: weak symbols are left: ${local}")
  endif()
endif()

if(NOT SANITIZED)
  run(${READELF} -SW ${OUTPUT})
  if(output MATCHES "\\.(init_array|ctors)")
    file(REMOVE ${OUTPUT})
    message(FATAL_ERROR "${OUTPUT}: a constructor would run instructions of this set when the library is opened, on any "
                        "machine. Make variables at namespace scope constexpr or constinit, and leave <iostream> out.")
  endif()
endif()
