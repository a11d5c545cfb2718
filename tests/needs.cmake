# What tests need, for tools/test: which targets are built and which packages are installed for one of them, and which tests
# are essential.

# sluice_test_needs(TESTS NAME... [TARGETS TARGET...] [PACKAGES SET...] [ESSENTIAL])
# TARGETS: what is built for the test. PACKAGES: sets of tools/install-deps besides "unit". ESSENTIAL: tools/test runs the
# test without being asked for it; the others run with --all. A test on the other backend, NAME-epoll, needs the same, and
# is essential if it is named.
function(sluice_test_needs)
    cmake_parse_arguments(PARSE_ARGV 0 needs "ESSENTIAL" "" "TESTS;TARGETS;PACKAGES")
    if(needs_ESSENTIAL AND needs_PACKAGES MATCHES "browser|go|gstreamer")
        message(FATAL_ERROR "${needs_TESTS}: tools/test installs no ${needs_PACKAGES} for essential tests")
    endif()
    string(JOIN " " targets ${needs_TARGETS})
    string(JOIN " " packages ${needs_PACKAGES})
    foreach(name IN LISTS needs_TESTS)
        if(needs_ESSENTIAL)
            set_property(TEST ${name} APPEND PROPERTY LABELS essential)
        endif()
        set_property(GLOBAL APPEND_STRING PROPERTY SLUICE_TEST_NEEDS "${name}|${targets}|${packages}\n")
        set_property(GLOBAL APPEND PROPERTY SLUICE_TESTS_WITH_NEEDS ${name})
    endforeach()
endfunction()

# Writes them to tests/needs of the build: NAME|TARGETS|PACKAGES. Every test of these folders has a line.
function(sluice_write_test_needs)
    get_property(known GLOBAL PROPERTY SLUICE_TESTS_WITH_NEEDS)
    foreach(folder IN LISTS ARGN)
        get_property(tests DIRECTORY "${folder}" PROPERTY TESTS)
        list(REMOVE_ITEM tests ${known})
        if(tests)
            message(FATAL_ERROR "${folder}/CMakeLists.txt: sluice_test_needs() is missing for ${tests}")
        endif()
    endforeach()
    get_property(needs GLOBAL PROPERTY SLUICE_TEST_NEEDS)
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/needs" "${needs}")
endfunction()
