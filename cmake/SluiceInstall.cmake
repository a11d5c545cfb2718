# What is installed, in the components that packages are made of:
#   libsluice0            the library
#   libsluice-libevent0   the adapter to libevent
#   libsluice-tls0        the TLS stage
#   libsluice-dev         headers, static libraries, man pages, examples, and what find_package and pkg-config look for
#   sluiced               the daemon and the tools, with their man pages, completions and units

set(component_library "libsluice${SLUICE_ABI}")
set(component_libevent "libsluice-libevent${SLUICE_ABI}")
set(component_tls "libsluice-tls${SLUICE_ABI}")
set(component_headers libsluice-dev)
set(component_programs sluiced)
set(components ${component_library} ${component_headers})
if(SLUICE_LIBEVENT)
    list(APPEND components ${component_libevent})
endif()
if(SLUICE_TLS)
    list(APPEND components ${component_tls})
endif()
if(SLUICE_DAEMON OR SLUICE_TOOLS)
    list(APPEND components ${component_programs})
endif()

# Documents of each, where Debian's tools look for them.
set(documents "${CMAKE_INSTALL_DATAROOTDIR}/doc")
foreach(component IN LISTS components)
    install(FILES LICENSE DESTINATION "${documents}/${component}" RENAME copyright COMPONENT ${component})
endforeach()

install(TARGETS sluice EXPORT sluice
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component_library} NAMELINK_COMPONENT ${component_headers})
foreach(name IN ITEMS sluice sluice-libevent sluice-tls)
    if(TARGET ${name}_archive)
        install(FILES "${PROJECT_BINARY_DIR}/lib${name}.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component_headers})
    endif()
endforeach()
if(SLUICE_LIBEVENT)
    set_target_properties(sluice_libevent PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS sluice_libevent EXPORT sluice-libevent
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component_libevent} NAMELINK_COMPONENT ${component_headers})
endif()
if(SLUICE_TLS)
    set_target_properties(sluice_tls PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS sluice_tls EXPORT sluice-tls
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component_tls} NAMELINK_COMPONENT ${component_headers})
endif()

# The programs.
file(RELATIVE_PATH bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
set(programs ${tools})
if(SLUICE_DAEMON)
    list(APPEND programs sluiced sluicectl)
endif()
foreach(program IN LISTS programs)
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT ${component_programs})
    file(GLOB pages CONFIGURE_DEPENDS src/man/${program}.[18])
    foreach(page IN LISTS pages)
        cmake_path(GET page EXTENSION LAST_ONLY section)
        string(SUBSTRING "${section}" 1 1 section)
        install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}" COMPONENT ${component_programs})
    endforeach()
    # Completions where the shells look for those of installed programs.
    install(FILES src/completions/bash/${program} DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
        COMPONENT ${component_programs})
    install(FILES src/completions/zsh/_${program} DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions"
        COMPONENT ${component_programs})
    install(FILES src/completions/fish/${program}.fish DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
        COMPONENT ${component_programs})
endforeach()
if(programs)
    # Not under etc, where an installation would overwrite what the operator has made of the sample.
    install(FILES src/daemon/sluiced.conf README.md SECURITY.md DESTINATION "${documents}/${component_programs}"
        COMPONENT ${component_programs})
    install(FILES src/daemon/README.md DESTINATION "${documents}/${component_programs}" RENAME README.daemon.md
        COMPONENT ${component_programs})
    # Where ACME's clients are told to find a copy of it.
    install(FILES packaging/acme/README.md DESTINATION "${documents}/${component_programs}" RENAME README.acme.md
        COMPONENT ${component_programs})
    install(FILES packaging/prometheus/sluice.rules.yml DESTINATION "${documents}/${component_programs}" RENAME prometheus-rules.yml
        COMPONENT ${component_programs})
    install(PROGRAMS packaging/acme/deploy-hook DESTINATION "${documents}/${component_programs}" RENAME acme-deploy-hook
        COMPONENT ${component_programs})
endif()

# Headers, and what belongs to programming.
set(without)
if(NOT SLUICE_LIBEVENT)
    list(APPEND without libevent.h)
endif()
if(NOT SLUICE_TLS)
    list(APPEND without tls.h)
endif()
file(GLOB headers RELATIVE "${PROJECT_SOURCE_DIR}/include/sluice" CONFIGURE_DEPENDS include/sluice/*.h)
list(REMOVE_ITEM headers ${without})
list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/sluice/" OUTPUT_VARIABLE header_paths)
install(FILES ${header_paths} "${PROJECT_BINARY_DIR}/include/sluice/version.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sluice" COMPONENT ${component_headers})
install(FILES README.md DESTINATION "${documents}/${component_headers}" COMPONENT ${component_headers})
install(DIRECTORY src/examples DESTINATION "${documents}/${component_headers}" COMPONENT ${component_headers}
    FILES_MATCHING PATTERN "*.c" PATTERN "*.md")

# Man pages that are written from the headers. Without Python there are none.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    list(REMOVE_ITEM headers visibility.h)
    list(APPEND headers version.h)
    set(pages "${PROJECT_BINARY_DIR}/man/man3")
    add_custom_command(OUTPUT "${pages}.stamp"
        COMMAND Python3::Interpreter tools/man-pages ${PROJECT_VERSION} "${pages}" ${headers}
        COMMAND "${CMAKE_COMMAND}" -E touch "${pages}.stamp"
        DEPENDS ${header_paths} include/sluice/version.h.in tools/man-pages
        WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
        COMMENT "Writing the man pages of the library"
        VERBATIM)
    add_custom_target(sluice_man_pages ALL DEPENDS "${pages}.stamp")
    install(DIRECTORY "${pages}" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT ${component_headers})
endif()

# find_package. The programs are not among the targets, so that it works where they are not installed.
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")
configure_package_config_file(cmake/sluice-config.cmake.in "${PROJECT_BINARY_DIR}/sluice-config.cmake"
    INSTALL_DESTINATION "${package_dir}" PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sluice-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(EXPORT sluice NAMESPACE sluice:: FILE sluice-targets.cmake DESTINATION "${package_dir}"
    COMPONENT ${component_headers})
if(SLUICE_LIBEVENT)
    install(EXPORT sluice-libevent NAMESPACE sluice:: FILE sluice-libevent-targets.cmake DESTINATION "${package_dir}"
        COMPONENT ${component_headers})
endif()
if(SLUICE_TLS)
    install(EXPORT sluice-tls NAMESPACE sluice:: FILE sluice-tls-targets.cmake DESTINATION "${package_dir}"
        COMPONENT ${component_headers})
endif()
install(FILES "${PROJECT_BINARY_DIR}/sluice-config.cmake" "${PROJECT_BINARY_DIR}/sluice-config-version.cmake"
    DESTINATION "${package_dir}" COMPONENT ${component_headers})

# pkg-config. Paths from the .pc file's own place, so that the prefix can be moved.
set(pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_PREFIX}/${pc_dir}" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
set(pcs sluice.pc)
if(SLUICE_LIBEVENT)
    list(APPEND pcs sluice-libevent.pc)
endif()
if(SLUICE_TLS)
    list(APPEND pcs sluice-tls.pc)
endif()
foreach(pc IN LISTS pcs)
    configure_file("cmake/${pc}.in" "${PROJECT_BINARY_DIR}/${pc}" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${pc}" DESTINATION "${pc_dir}" COMPONENT ${component_headers})
endforeach()
