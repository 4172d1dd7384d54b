# Run with cmake -P: installs what plugin authors need, builds the stranger's plugin with it, installs that, and opens both.
#   BUILD SOURCE WORK GENERATOR MAKE CXX LIBDIR VERIFY
cmake_policy(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " line "${ARGN}")
    message(FATAL_ERROR "failed: ${line}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/tenon --component sdk)
file(GLOB_RECURSE headers RELATIVE ${WORK}/tenon/include ${WORK}/tenon/include/*)
foreach(header IN LISTS headers)
  if(NOT header MATCHES "^tenon/(abi\\.h|sdk/[a-z_]+\\.hpp)$")
    message(FATAL_ERROR "${header} is installed, but plugins may not include it")
  endif()
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${WORK}/tenon
    -DCMAKE_INSTALL_LIBDIR=${LIBDIR} -DCMAKE_INSTALL_PREFIX=${WORK}/stranger)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} --install ${WORK}/build)
foreach(directory ${WORK}/build/plugins ${WORK}/stranger/${LIBDIR}/tenon/plugins)
  run(${VERIFY} ${directory})
  if(NOT out MATCHES "stranger +2\\.0\\.1 +kernels +opened")
    message(FATAL_ERROR "${directory}: the stranger's plugin was not opened:\n${out}")
  endif()
endforeach()
# Installing changed the library, so the second hash is another one.
file(SHA256 ${WORK}/build/plugins/libtenon_stranger.so built)
file(SHA256 ${WORK}/stranger/${LIBDIR}/tenon/plugins/libtenon_stranger.so installed)
if(built STREQUAL installed)
  message(FATAL_ERROR "expected the installed library to differ from the built one, which makes this test worth running")
endif()
