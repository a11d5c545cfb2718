# Packages: cpack -G DEB (Debian and Ubuntu; one for each component of cmake/SluiceInstall.cmake), cpack -G TGZ (anywhere; all in
# one), in a build folder configured with -DCMAKE_INSTALL_PREFIX=/usr.

if(SLUICE_DAEMON)
    configure_file(src/daemon/sluiced.service.in "${PROJECT_BINARY_DIR}/sluiced.service" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/sluiced.service" src/daemon/sluiced.socket DESTINATION lib/systemd/system
        COMPONENT ${component_programs})
endif()

set(CPACK_PACKAGE_VENDOR "Sluice")
set(CPACK_PACKAGE_CONTACT "The Sluice authors <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_PACKAGE_FILE_NAME "sluice-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(debian "${PROJECT_SOURCE_DIR}/packaging/debian")
set(CPACK_PRE_BUILD_SCRIPTS "${debian}/prepare.cmake")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# COMPONENT SECTION DEPENDS SUMMARY DESCRIPTION: what dpkg-shlibdeps does not find out.
function(sluice_debian component section depends summary description)
    string(TOUPPER "${component}" upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${component} PARENT_SCOPE)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
endfunction()
set(same "(= ${PROJECT_VERSION})")
set(framed
    "FLV, RTMP, RTSP with RTP, HTTP/1.1, WebSocket and RESP, with a reader\nfor everything else. Payload is passed on by reference.")
sluice_debian(${component_library} libs "" "read framed network streams without copying"
    "libsluice reads framed byte streams on Linux io_uring:\n${framed}")
sluice_debian(${component_libevent} libs "${component_library} ${same}" "read framed network streams inside libevent"
    "The adapter by which a loop of libsluice runs inside an event base of\nlibevent.")
sluice_debian(${component_tls} libs "${component_library} ${same}" "read and write framed network streams through TLS"
    "The TLS stage of libsluice, by OpenSSL: TLS 1.2 and 1.3 between a\nconnection and a framer.")
set(development "${component_library} ${same}, liburing-dev (>= 2.3)")
if(SLUICE_LIBEVENT)
    string(APPEND development ", ${component_libevent} ${same}")
endif()
if(SLUICE_TLS)
    string(APPEND development ", ${component_tls} ${same}")
endif()
sluice_debian(${component_headers} libdevel "${development}" "read framed network streams without copying (development)"
    "Headers, the static library, man pages and examples of libsluice:\n${framed}")
sluice_debian(${component_programs} video "${component_library} ${same}" "take in live video streams and relay them to players"
    "sluiced ingests streams from encoders and cameras, in FLV or by RTSP,\nand relays them to players by HTTP-FLV, WebSocket or RTSP.\nsluicectl shows and controls it, sluice-probe looks into a stream, and\nsluice-push publishes and plays many at once.")
string(TOUPPER "${component_programs}" upper)
set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${debian}/postinst" "${debian}/prerm" "${debian}/postrm")
include(CPack)
