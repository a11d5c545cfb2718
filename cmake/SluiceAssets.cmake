# What the daemon has inside: the API's description, the console, and the script by which the console plays streams.

option(SLUICE_CONSOLE_PLAYER "Fetch mpegts.js from npm for the console's preview" ON)

set(mpegts_version 1.8.2)
set(mpegts_sha512 71960c6b99ae0121f9e70ad2e892b9206914aa7080f7a7347fe59d9d6f758c82bdb3f37a3738e64d00c935883d039bbf1b64399e3d9bdf0d59c33cdeffd82ec4)
# Beside the builds, which share it.
set(SLUICE_NPM_DIR "${PROJECT_SOURCE_DIR}/build/npm" CACHE PATH "Where packages of npm are kept")

# Sets mpegts_js to the script, or to nothing: the console works without it, and says so.
function(sluice_fetch_mpegts)
    set(package "${SLUICE_NPM_DIR}/mpegts.js-${mpegts_version}.tgz")
    set(mpegts_js "" PARENT_SCOPE)
    if(NOT EXISTS "${package}")
        find_program(NPM npm)
        if(NOT NPM)
            message(STATUS "npm is missing: the console is built without its preview")
            return()
        endif()
        file(MAKE_DIRECTORY "${SLUICE_NPM_DIR}")
        execute_process(
            COMMAND "${NPM}" pack --silent --pack-destination "${SLUICE_NPM_DIR}" "mpegts.js@${mpegts_version}"
            WORKING_DIRECTORY "${SLUICE_NPM_DIR}"
            TIMEOUT 120
            OUTPUT_QUIET ERROR_QUIET
            RESULT_VARIABLE result)
        if(NOT result EQUAL 0 OR NOT EXISTS "${package}")
            message(STATUS "mpegts.js cannot be fetched: the console is built without its preview")
            return()
        endif()
    endif()
    file(SHA512 "${package}" sha512)
    if(NOT sha512 STREQUAL mpegts_sha512)
        message(FATAL_ERROR "${package} is not what was pinned: its SHA-512 is ${sha512}")
    endif()
    set(folder "${PROJECT_BINARY_DIR}/npm/mpegts.js-${mpegts_version}")
    file(ARCHIVE_EXTRACT INPUT "${package}" DESTINATION "${folder}" PATTERNS package/dist/mpegts.js package/LICENSE)
    set(mpegts_js "${folder}/package/dist/mpegts.js" PARENT_SCOPE)
    set(mpegts_license "${folder}/package/LICENSE" PARENT_SCOPE)
endfunction()

set(mpegts_js "")
if(SLUICE_CONSOLE_PLAYER)
    sluice_fetch_mpegts()
endif()

set(sources "${PROJECT_SOURCE_DIR}/src/daemon/admin")
file(GLOB assets CONFIGURE_DEPENDS "${sources}/openapi.json" "${sources}/console/*")
set(definitions "SLUICED_SOURCES=\"${sources}\"")
if(mpegts_js)
    list(APPEND assets "${mpegts_js}")
    list(APPEND definitions "SLUICED_MPEGTS_JS=\"${mpegts_js}\"")
    install(FILES "${mpegts_license}" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/sluiced" RENAME LICENSE.mpegts.js
        COMPONENT sluiced)
endif()
set_source_files_properties("${sources}/admin_asset.c" PROPERTIES
    COMPILE_DEFINITIONS "${definitions}"
    OBJECT_DEPENDS "${assets}")
