# Run by CPack between installing and packing: what Debian expects of the files, and others do not. Man pages are compressed,
# and each package has the changelog.

if(NOT CPACK_GENERATOR STREQUAL "DEB")
    return()
endif()
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_DIRECTORY}/*${CPACK_PACKAGING_INSTALL_PREFIX}/share/man/*.[1-8]")
file(GLOB documents "${CPACK_TEMPORARY_DIRECTORY}/*${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc/*")
foreach(folder IN LISTS documents)
    configure_file("${CMAKE_CURRENT_LIST_DIR}/changelog" "${folder}/changelog" COPYONLY)
    list(APPEND pages "${folder}/changelog")
endforeach()
if(NOT pages OR NOT documents)
    message(FATAL_ERROR "${CPACK_TEMPORARY_DIRECTORY}: no man pages, or no documents")
endif()
# -n: the same files make the same packages.
execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
