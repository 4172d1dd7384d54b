# What a plugin author needs from an installed Tenon: find_package(Tenon CONFIG) gives Tenon::sdk and tenon_add_plugin().
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tenon)
install(FILES core/include/tenon/abi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenon COMPONENT sdk)
install(DIRECTORY core/include/tenon/sdk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenon COMPONENT sdk FILES_MATCHING PATTERN "*.hpp")
install(TARGETS tenon_sdk EXPORT TenonTargets COMPONENT sdk)
install(EXPORT TenonTargets NAMESPACE Tenon:: DESTINATION ${package_dir} COMPONENT sdk)
configure_package_config_file(cmake/TenonConfig.cmake.in ${CMAKE_BINARY_DIR}/TenonConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TenonConfigVersion.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES ${CMAKE_BINARY_DIR}/TenonConfig.cmake ${CMAKE_BINARY_DIR}/TenonConfigVersion.cmake
              cmake/TenonPlugin.cmake cmake/TenonIsaObject.cmake cmake/TenonCheckPlugin.cmake
              cmake/TenonWriteManifest.cmake cmake/tenon_plugin.map
        DESTINATION ${package_dir} COMPONENT sdk)
