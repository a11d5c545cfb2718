# What is installed: the shared libraries, the headers, the daemon and the tools with their man pages, and what
# find_package and pkg-config look for.

file(RELATIVE_PATH bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
set_target_properties(sluiced ${tools} PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")

set_target_properties(sluice_libevent PROPERTIES INSTALL_RPATH "$ORIGIN")

install(TARGETS sluicectl RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(TARGETS sluice sluice_libevent sluiced ${tools} EXPORT sluice
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/sluice "${PROJECT_BINARY_DIR}/include/sluice"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")

# Not under etc, where an installation would overwrite what the operator has made of it.
install(FILES src/daemon/sluiced.conf LICENSE README.md SECURITY.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# Man pages, and completions where the shells look for those of installed programs.
foreach(section IN ITEMS 1 8)
    file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/man/*.${section}")
    install(FILES ${pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
endforeach()
install(DIRECTORY src/completions/bash/ DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(DIRECTORY src/completions/zsh/ DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(DIRECTORY src/completions/fish/ DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")
configure_package_config_file(cmake/sluice-config.cmake.in "${PROJECT_BINARY_DIR}/sluice-config.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sluice-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(EXPORT sluice NAMESPACE sluice:: FILE sluice-targets.cmake DESTINATION "${package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/sluice-config.cmake" "${PROJECT_BINARY_DIR}/sluice-config-version.cmake"
    DESTINATION "${package_dir}")

# Paths from the .pc file's own place, so that the prefix can be moved.
set(pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_PREFIX}/${pc_dir}" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
foreach(pc IN ITEMS sluice.pc sluice-libevent.pc)
    configure_file("cmake/${pc}.in" "${PROJECT_BINARY_DIR}/${pc}" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${pc}" DESTINATION "${pc_dir}")
endforeach()
