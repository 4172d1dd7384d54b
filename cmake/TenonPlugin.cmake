# tenon_add_plugin(): a shared library that exports only tenon_plugin_entry, and the manifest beside it.
#
#   tenon_add_plugin(NAME
#     KIND architecture|format|backend|kernels|collective
#     VERSION 0.1.0
#     SOURCES a.cpp b.cpp …
#     [ISA_SOURCES k.cpp …]          built once an instruction set, see tenon_add_isa_variants()
#     [ARCHITECTURES id …] [FORMATS name …] [MAGICS text …] [EXTENSIONS .gguf …]
#     [BACKENDS name …] [KERNEL_BACKENDS name …] [KERNEL_DTYPES name …] [OPS name …]
#     [PRIORITY n] [LIBRARIES target …])
include_guard()

set(TENON_PLUGIN_COMPILE_OPTIONS -fvisibility=hidden -fvisibility-inlines-hidden -fno-gnu-unique -ffp-contract=off)

# tenon_add_isa_variants(TARGET SOURCES …): each source is compiled for every instruction set with TENON_ISA set to its name
# (portable, avx2, avx512), which the source uses as a namespace. No global -march: the choice happens at run time.
function(tenon_add_isa_variants target)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  set(flags_portable "")
  set(flags_avx2 -mavx2 -mfma -mf16c)
  set(flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mavx2 -mfma -mf16c
                   -mprefer-vector-width=512)
  foreach(isa portable avx2 avx512)
    set(object ${target}_${isa})
    add_library(${object} OBJECT ${arg_SOURCES})
    target_compile_definitions(${object} PRIVATE TENON_ISA=${isa} TENON_ISA_${isa}=1)
    target_compile_options(${object} PRIVATE ${TENON_PLUGIN_COMPILE_OPTIONS} ${flags_${isa}} -Wall -Wextra)
    target_link_libraries(${object} PRIVATE tenon_sdk)
    target_include_directories(${object} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
endfunction()

function(tenon_add_plugin name)
  cmake_parse_arguments(arg "" "KIND;VERSION;PRIORITY"
    "SOURCES;ISA_SOURCES;ARCHITECTURES;FORMATS;MAGICS;EXTENSIONS;BACKENDS;KERNEL_BACKENDS;KERNEL_DTYPES;OPS;LIBRARIES" ${ARGN})
  if(NOT arg_VERSION)
    set(arg_VERSION 0.1.0)
  endif()
  if(NOT arg_PRIORITY)
    set(arg_PRIORITY 0)
  endif()
  set(target tenon_plugin_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE tenon_sdk ${arg_LIBRARIES})
  target_compile_options(${target} PRIVATE ${TENON_PLUGIN_COMPILE_OPTIONS} -Wall -Wextra)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_options(${target} PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES PREFIX "libtenon_" OUTPUT_NAME ${name}
                        LIBRARY_OUTPUT_DIRECTORY ${TENON_PLUGIN_OUTPUT_DIR})
  if(arg_ISA_SOURCES)
    tenon_add_isa_variants(${target} SOURCES ${arg_ISA_SOURCES})
  endif()
endfunction()
