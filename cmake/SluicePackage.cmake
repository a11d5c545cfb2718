# Packages: cpack -G DEB (Debian and Ubuntu), cpack -G TGZ (anywhere), in a build folder configured with
# -DCMAKE_INSTALL_PREFIX=/usr. One package of all: libraries, headers, the daemon, the tools.

configure_file(src/daemon/sluiced.service.in "${PROJECT_BINARY_DIR}/sluiced.service" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/sluiced.service" src/daemon/sluiced.socket DESTINATION lib/systemd/system)

# Where Debian's tools look for it.
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)

set(CPACK_PACKAGE_VENDOR "Sluice")
set(CPACK_PACKAGE_CONTACT "The Sluice authors <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "libsluice reads framed network streams (FLV, RTSP, HTTP, WebSocket, RESP) from io_uring without
copying; sluiced takes live streams in and relays them to players.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_PACKAGE_FILE_NAME "sluice-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION video)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(debian "${PROJECT_SOURCE_DIR}/packaging/debian")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${debian}/postinst" "${debian}/prerm" "${debian}/postrm")
include(CPack)
