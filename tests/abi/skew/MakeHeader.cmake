# Run with cmake -P: writes a header as another release could have had it.
#
#   HEADER   the header of this tree
#   OUTPUT   the header to write
#   MORE     tables that have a member more, at their end
#   FEWER    tables whose last member is not there yet
cmake_policy(VERSION 3.25)
file(READ ${HEADER} text)
string(REPLACE ";" "\\;" text "${text}")
foreach(table IN LISTS MORE FEWER)
  if(NOT text MATCHES "}[ ]tenon_${table}\\\\;")
    message(FATAL_ERROR "${HEADER} has no table tenon_${table}")
  endif()
endforeach()
foreach(table IN LISTS MORE)
  string(REPLACE "} tenon_${table}\\;" "  uint64_t since_later[4]\\;\n} tenon_${table}\\;" text "${text}")
endforeach()
foreach(table IN LISTS FEWER)
  string(REGEX REPLACE "\n[^\n]*\n} tenon_${table}\\\\;" "\n} tenon_${table}\\\\;" shorter "${text}")  # a line a member
  if(shorter STREQUAL text)
    message(FATAL_ERROR "${HEADER}: the last member of tenon_${table} is not in the line above its end")
  endif()
  set(text "${shorter}")
endforeach()
string(REPLACE "\\;" ";" text "${text}")
file(WRITE ${OUTPUT} "${text}")
