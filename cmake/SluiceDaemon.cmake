# The daemon, and sluicectl, which talks to it.

if(NOT SLUICE_LIBEVENT)
    message(FATAL_ERROR "SLUICE_DAEMON needs SLUICE_LIBEVENT")
endif()
pkg_check_modules(EVENT REQUIRED IMPORTED_TARGET libevent_core libevent_extra libevent_pthreads)
pkg_check_modules(CONFIG REQUIRED IMPORTED_TARGET libconfig)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(SYSTEMD IMPORTED_TARGET libsystemd)

# Nothing of the library but its public headers. All of it but main() is compiled once, for tests as well.
file(GLOB_RECURSE daemon_sources CONFIGURE_DEPENDS src/daemon/*.c)
list(REMOVE_ITEM daemon_sources "${PROJECT_SOURCE_DIR}/src/daemon/process/main.c")
# The administration runs on a loop inside libevent: the adapter is a part of the daemon, rather than a library more to be found.
add_library(sluiced_parts STATIC ${daemon_sources} $<TARGET_OBJECTS:sluice_libevent_objects>)
sluice_compile(sluiced_parts)
set_target_properties(sluiced_parts PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(sluiced_parts PUBLIC sluice_shared PkgConfig::EVENT PkgConfig::CONFIG PkgConfig::JANSSON
    Threads::Threads)
# The library itself is shared, but for tests that say otherwise.
target_link_libraries(sluiced_parts INTERFACE
    $<IF:$<BOOL:$<TARGET_PROPERTY:SLUICE_STATIC>>,sluice_static,sluice::sluice>)
target_link_libraries(sluice_shared INTERFACE $<$<BOOL:$<TARGET_PROPERTY:SLUICE_STATIC>>:sluice_static>)
add_executable(sluiced src/daemon/process/main.c)
sluice_compile(sluiced)
sluice_link(sluiced)
set_target_properties(sluiced PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(sluiced PRIVATE sluiced_parts)
include(SluiceAssets)

# The service manager is told what there is to tell, where the host has one.
if(SYSTEMD_FOUND)
    target_compile_definitions(sluiced_parts PRIVATE SLUICED_SYSTEMD)
    target_link_libraries(sluiced_parts PUBLIC PkgConfig::SYSTEMD)
endif()

# Prints the table of settings, from which tools/settings-docs writes the sample file, the man page and the completions.
if(SLUICE_BUILD_TESTS)
    add_executable(settings_json src/docs/settings_json.c)
    sluice_compile(settings_json)
    sluice_link(settings_json)
    set_target_properties(settings_json PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(settings_json PRIVATE sluiced_parts)
endif()

# sluicectl knows the daemon's API, and uses the library for TLS; of what the others share it knows how text is shown.
file(GLOB ctl_sources CONFIGURE_DEPENDS src/ctl/*.c)
add_executable(sluicectl ${ctl_sources} src/shared/foreign_text.c $<TARGET_OBJECTS:sluice_tls_objects>)
sluice_compile(sluicectl)
sluice_link(sluicectl)
set_target_properties(sluicectl PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(sluicectl PRIVATE src include "${PROJECT_BINARY_DIR}/include")
target_link_libraries(sluicectl PRIVATE PkgConfig::JANSSON PkgConfig::SSL PkgConfig::CRYPTO sluice::sluice)
