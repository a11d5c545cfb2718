if(NOT SLUICE_TLS)
    message(FATAL_ERROR "SLUICE_DAEMON and SLUICE_TOOLS need SLUICE_TLS")
endif()
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)

# What the programs have in common; of the library it uses the public headers alone, as they do. Connections may use TLS: the
# stage is a part of the programs, rather than a library more to be found.
file(GLOB shared_sources CONFIGURE_DEPENDS src/shared/*.c)
add_library(sluice_shared STATIC ${shared_sources} $<TARGET_OBJECTS:sluice_tls_objects>)
sluice_compile(sluice_shared)
set_target_properties(sluice_shared PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(sluice_shared PUBLIC src include "${PROJECT_BINARY_DIR}/include")
target_link_libraries(sluice_shared PUBLIC PkgConfig::SSL PkgConfig::CRYPTO m)
