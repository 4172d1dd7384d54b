# tenon_add_plugin(): a shared library that exports only tenon_plugin_entry, and the manifest beside it.
#
#   tenon_add_plugin(NAME
#     KIND architecture|format|backend|kernels|collective
#     VERSION 0.1.0
#     SOURCES a.cpp b.cpp …
#     [ISA_SOURCES k.cpp …]          built once an instruction set, see tenon_add_isa_variants()
#     [ARCHITECTURES id …] [FORMATS name …] [MAGICS text …] [EXTENSIONS .gguf …]
#     [BACKENDS name …] [KERNEL_BACKENDS name …] [KERNEL_DTYPES name …] [OPS name …] [FEATURES name …]
#     [COLLECTIVES name …] [DTYPES name …] [PRIORITY n] [LIBRARIES target …] [NO_INSTALL])
#
# makes the target tenon_plugin_NAME and the library libtenon_NAME.so in TENON_PLUGIN_OUTPUT_DIR. The name in TENON_PLUGIN()
# must be NAME and its version VERSION: the host refuses a library that differs from its manifest. MAGICS are the bytes a
# file begins with, in C escapes; FEATURES are those that every kernel of the library needs; DTYPES are those that it
# registers, KERNEL_DTYPES those that its kernels serve.
#
# What the build checks: nothing is undefined, nothing but the entry is exported, and no library of the core is needed.
include_guard()

set(TENON_PLUGIN_COMPILE_OPTIONS -fvisibility=hidden -fvisibility-inlines-hidden -fno-gnu-unique -ffp-contract=off)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(REMOVE_ITEM TENON_PLUGIN_COMPILE_OPTIONS -fno-gnu-unique)  # the others have no unique symbols
endif()
if(NOT TENON_ABI_HEADER)
  set(TENON_ABI_HEADER ${CMAKE_CURRENT_LIST_DIR}/../core/include/tenon/abi.h)
endif()
if(NOT TENON_PLUGIN_OUTPUT_DIR)
  set(TENON_PLUGIN_OUTPUT_DIR ${CMAKE_BINARY_DIR}/plugins)
endif()
foreach(part MAJOR MINOR)
  file(STRINGS ${TENON_ABI_HEADER} line REGEX "^#define TENON_ABI_${part} ")
  string(REGEX REPLACE "^#define TENON_ABI_${part} ([0-9]+).*" "\\1" TENON_ABI_${part} "${line}")
endforeach()
unset(line)

# Joining objects needs the GNU binutils; with another compiler CMake may have found its own tools.
foreach(tool LINKER:ld.bfd NM:nm OBJCOPY:objcopy READELF:readelf)
  string(REGEX MATCH "^([A-Z]+):(.*)$" matched ${tool})
  set(TENON_${CMAKE_MATCH_1} ${CMAKE_${CMAKE_MATCH_1}})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    find_program(TENON_GNU_${CMAKE_MATCH_1} NAMES ${CMAKE_MATCH_2} REQUIRED)
    set(TENON_${CMAKE_MATCH_1} ${TENON_GNU_${CMAKE_MATCH_1}})
  endif()
endforeach()
unset(tool)
unset(matched)

# tenon_add_isa_variants(TARGET SOURCES … [LIBRARIES …]): each source is compiled for every instruction set with TENON_ISA
# set to its name (portable, avx2, avx512), which the source uses as a namespace; TENON_ISA_<name> is 1 as well. No global
# -march: the choice happens at run time. The objects of a set are joined into <target>_<isa>.isa.o, whose inline functions
# are its own (TenonIsaObject.cmake says why). No variable at namespace scope may need a constructor.
function(tenon_add_isa_variants target)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(flags_portable "")
  set(flags_avx2 -mavx2 -mfma -mf16c)
  # No compiler uses tiles by itself, so that code may ask for them where it knows that they are there.
  set(flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mavx2 -mfma -mf16c
                   -mprefer-vector-width=512 -mamx-tile -mamx-bf16)
  set(sanitized FALSE)
  if(TENON_SANITIZE OR "${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize")
    set(sanitized TRUE)
  endif()
  foreach(isa portable avx2 avx512)
    set(object ${target}_${isa})
    if(TARGET ${object})
      message(FATAL_ERROR "tenon_add_isa_variants(${target}): called twice for one target; name all sources at once")
    endif()
    add_library(${object} OBJECT ${arg_SOURCES})
    target_compile_definitions(${object} PRIVATE TENON_ISA=${isa} TENON_ISA_${isa}=1)
    target_compile_options(${object} PRIVATE ${TENON_PLUGIN_COMPILE_OPTIONS} ${flags_${isa}} -Wall -Wextra
                                             $<$<BOOL:${TENON_WERROR}>:-Werror>)
    target_link_libraries(${object} PRIVATE Tenon::sdk ${arg_LIBRARIES})
    target_include_directories(${object} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    set_target_properties(${object} PROPERTIES POSITION_INDEPENDENT_CODE ON INTERPROCEDURAL_OPTIMIZATION OFF)
    set(joined ${CMAKE_CURRENT_BINARY_DIR}/${object}.isa.o)
    set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/TenonIsaObject.cmake)
    add_custom_command(OUTPUT ${joined}
      COMMAND ${CMAKE_COMMAND} -DLINKER=${TENON_LINKER} -DNM=${TENON_NM} -DOBJCOPY=${TENON_OBJCOPY}
              -DREADELF=${TENON_READELF} -DSANITIZED=${sanitized} "-DOBJECTS=$<TARGET_OBJECTS:${object}>"
              -DOUTPUT=${joined} -P ${script}
      DEPENDS $<TARGET_OBJECTS:${object}> ${script}
      COMMENT "Joining the ${isa} objects of ${target}" VERBATIM)
    set_source_files_properties(${joined} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    target_sources(${target} PRIVATE ${joined})
  endforeach()
endfunction()

# Appends `field: "value"` lines to the variable `out`.
function(_tenon_manifest_strings out field)
  set(text "${${out}}")
  foreach(value IN LISTS ARGN)
    if(value MATCHES "[\"\n]")
      message(FATAL_ERROR "tenon_add_plugin(): ${field} holds a quote or a line break: ${value}")
    endif()
    string(APPEND text "${field}: \"${value}\"\n")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(tenon_add_plugin name)
  cmake_parse_arguments(arg "NO_INSTALL" "KIND;VERSION;PRIORITY"
    "SOURCES;ISA_SOURCES;ARCHITECTURES;FORMATS;MAGICS;EXTENSIONS;BACKENDS;KERNEL_BACKENDS;KERNEL_DTYPES;OPS;FEATURES;COLLECTIVES;DTYPES;LIBRARIES"
    ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_plugin(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT name MATCHES "^[a-z0-9][a-z0-9_.-]*$")
    message(FATAL_ERROR "tenon_add_plugin(${name}): a name is of a-z, 0-9, '_', '.' and '-'")
  endif()
  if(NOT arg_KIND MATCHES "^(architecture|format|backend|kernels|collective)$")
    message(FATAL_ERROR "tenon_add_plugin(${name}): KIND is architecture, format, backend, kernels or collective, "
                        "not '${arg_KIND}'")
  endif()
  if(NOT arg_VERSION)
    set(arg_VERSION 0.1.0)
  endif()
  if(NOT arg_PRIORITY)
    set(arg_PRIORITY 0)
  endif()

  set(target tenon_plugin_${name})
  set(file libtenon_${name}.so)
  set(scripts ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE Tenon::sdk ${arg_LIBRARIES})
  set(c_options ${TENON_PLUGIN_COMPILE_OPTIONS})  # a plugin may be plain C, which has no inline functions to hide
  list(REMOVE_ITEM c_options -fvisibility-inlines-hidden)
  target_compile_options(${target} PRIVATE "$<IF:$<COMPILE_LANGUAGE:C>,${c_options},${TENON_PLUGIN_COMPILE_OPTIONS}>"
                                           -Wall -Wextra $<$<BOOL:${TENON_WERROR}>:-Werror>)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${scripts}/tenon_plugin.map)
  # clang has the sanitizers' runtime in the program alone: there a plugin has undefined symbols.
  if(NOT (TENON_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${file} POSITION_INDEPENDENT_CODE ON
                        LIBRARY_OUTPUT_DIRECTORY ${TENON_PLUGIN_OUTPUT_DIR})
  if(arg_ISA_SOURCES)
    tenon_add_isa_variants(${target} SOURCES ${arg_ISA_SOURCES} LIBRARIES ${arg_LIBRARIES})
  endif()

  string(TOUPPER ${arg_KIND} kind)
  set(text "name: \"${name}\"\nversion: \"${arg_VERSION}\"\nkind: ${kind}\n")
  string(APPEND text "abi_major: ${TENON_ABI_MAJOR}\nabi_minor: ${TENON_ABI_MINOR}\n")
  string(APPEND text "priority: ${arg_PRIORITY}\n")
  _tenon_manifest_strings(text architecture ${arg_ARCHITECTURES})
  _tenon_manifest_strings(text format ${arg_FORMATS})
  _tenon_manifest_strings(text format_magic ${arg_MAGICS})
  _tenon_manifest_strings(text format_extension ${arg_EXTENSIONS})
  _tenon_manifest_strings(text backend ${arg_BACKENDS})
  _tenon_manifest_strings(text collective ${arg_COLLECTIVES})
  _tenon_manifest_strings(text dtype ${arg_DTYPES})
  foreach(backend IN LISTS arg_KERNEL_BACKENDS)
    set(family "")
    _tenon_manifest_strings(family backend ${backend})
    _tenon_manifest_strings(family op ${arg_OPS})
    _tenon_manifest_strings(family dtype ${arg_KERNEL_DTYPES})
    _tenon_manifest_strings(family feature ${arg_FEATURES})
    string(REGEX REPLACE "([^\n]+\n)" "  \\1" family "${family}")
    string(APPEND text "kernels {\n${family}}\n")
  endforeach()
  string(APPEND text "library: \"${file}\"\n")
  set(template ${CMAKE_CURRENT_BINARY_DIR}/${target}.txtpb.in)
  file(CONFIGURE OUTPUT ${template} CONTENT "${text}" @ONLY)
  # A changed manifest has to be written again, and what writes it runs after the link.
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${template} ${scripts}/tenon_plugin.map
               ${scripts}/TenonWriteManifest.cmake ${scripts}/TenonCheckPlugin.cmake)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DREADELF=${CMAKE_READELF} -DLIBRARY=$<TARGET_FILE:${target}>
            -P ${scripts}/TenonCheckPlugin.cmake
    COMMAND ${CMAKE_COMMAND} -DLIBRARY=$<TARGET_FILE:${target}> -DTEMPLATE=${template}
            -P ${scripts}/TenonWriteManifest.cmake
    BYPRODUCTS ${TENON_PLUGIN_OUTPUT_DIR}/${file}.tenon.txtpb
    VERBATIM)

  if(NOT arg_NO_INSTALL)
    include(GNUInstallDirs)
    set(directory ${CMAKE_INSTALL_LIBDIR}/tenon/plugins)
    install(TARGETS ${target} LIBRARY DESTINATION ${directory})
    # Installing may rewrite the library (RPATH, strip), so its hash is taken once more.
    set(destination ${directory})
    if(NOT IS_ABSOLUTE "${directory}")
      set(destination "\${CMAKE_INSTALL_PREFIX}/${directory}")
    endif()
    install(CODE "set(LIBRARY \"\$ENV{DESTDIR}${destination}/${file}\")
set(TEMPLATE \"${template}\")
include(\"${scripts}/TenonWriteManifest.cmake\")")
  endif()
endfunction()
