# How the project's own code is compiled and linked.

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(SLUICE_SANITIZE_FLAGS "")
if(SLUICE_SANITIZE)
    set(SLUICE_SANITIZE_FLAGS -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer)
    if(SLUICE_SANITIZE MATCHES undefined)
        list(APPEND SLUICE_SANITIZE_FLAGS -fno-sanitize-recover=undefined)
    endif()
endif()

# What libFuzzer looks at, and what llvm-cov does; both are clang's.
if((SLUICE_FUZZ OR SLUICE_COVERAGE) AND NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SLUICE_FUZZ and SLUICE_COVERAGE need clang: configure with -DCMAKE_C_COMPILER=clang-14")
endif()
set(SLUICE_INSTRUMENT_FLAGS "")
if(SLUICE_FUZZ)
    list(APPEND SLUICE_INSTRUMENT_FLAGS -fsanitize=fuzzer-no-link)
    # libFuzzer takes the checks of each pointer for comparisons of the input, which takes a third of the time and hides
    # those that are. Null pointers trap without them; alignment is checked in the other sanitized builds.
    list(APPEND SLUICE_INSTRUMENT_FLAGS -fno-sanitize=null,alignment)
endif()
if(SLUICE_COVERAGE)
    list(APPEND SLUICE_INSTRUMENT_FLAGS -fprofile-instr-generate -fcoverage-mapping)
endif()

# What Valgrind is told of blocks, and of what the kernel writes: memory/poison.h.
set(SLUICE_VALGRIND_DEFINITION "")
if(SLUICE_VALGRIND)
    include(CheckIncludeFile)
    check_include_file(valgrind/memcheck.h HAVE_MEMCHECK_H)
    find_program(VALGRIND valgrind REQUIRED)
    if(NOT HAVE_MEMCHECK_H OR SLUICE_SANITIZE)
        message(FATAL_ERROR "SLUICE_VALGRIND needs valgrind's headers, and no sanitizer beside it")
    endif()
    set(SLUICE_VALGRIND_DEFINITION SLUICE_VALGRIND)
endif()

# Sources of ours: the language, the warnings, what hardens an optimised build.
function(sluice_compile target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11
        C_STANDARD_REQUIRED ON
        C_EXTENSIONS ON
        C_VISIBILITY_PRESET hidden)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE ${SLUICE_VALGRIND_DEFINITION})
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
        -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef
        $<$<BOOL:${SLUICE_WERROR}>:-Werror>
        -fstack-protector-strong
        ${SLUICE_SANITIZE_FLAGS}
        ${SLUICE_INSTRUMENT_FLAGS})
    if(NOT SLUICE_SANITIZE)
        # The sanitizers check more themselves, and see less behind the fortified calls.
        set(optimised "$<CONFIG:Release,RelWithDebInfo,MinSizeRel>")
        target_compile_options(${target} PRIVATE "$<${optimised}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
    endif()
endfunction()

# What is linked: the sanitizers' runtime, and relocations that are read-only from the start.
function(sluice_link target)
    target_link_options(${target} PRIVATE ${SLUICE_SANITIZE_FLAGS} ${SLUICE_INSTRUMENT_FLAGS})
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL STATIC_LIBRARY)
        target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now)
    endif()
endfunction()

# The static library that is installed, libNAME.a: one object, in which everything is local but what the headers declare, so
# that no name of ours meets one of the program's. The objects have a section for each function: with --gc-sections a program
# has only what it calls. Instrumented objects are for our own programs.
function(sluice_archive name objects)
    if(SLUICE_SANITIZE OR SLUICE_INSTRUMENT_FLAGS)
        return()
    endif()
    target_compile_options(${objects} PRIVATE -ffunction-sections -fdata-sections)
    set(archive "${PROJECT_BINARY_DIR}/lib${name}.a")
    add_custom_command(OUTPUT "${archive}"
        COMMAND "${CMAKE_C_COMPILER}" -r -nostdlib -o ${name}.o $<TARGET_OBJECTS:${objects}>
        COMMAND "${CMAKE_OBJCOPY}" --localize-hidden --strip-debug ${name}.o
        COMMAND "${CMAKE_COMMAND}" -E rm -f "${archive}"
        COMMAND "${CMAKE_AR}" rcs "${archive}" ${name}.o
        DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
        COMMAND_EXPAND_LISTS
        VERBATIM)
    add_custom_target(${name}_archive ALL DEPENDS "${archive}")
endfunction()

# A library of its own beside libsluice, libsluice-NAME: so that only its users need what it needs. Its exports begin with the
# same prefix, so the same version script serves.
function(sluice_satellite name)
    cmake_parse_arguments(its "" "" "SOURCES;LIBRARIES" ${ARGN})
    set(objects sluice_${name}_objects)
    add_library(${objects} OBJECT ${its_SOURCES})
    sluice_compile(${objects})
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${objects} PRIVATE include "${PROJECT_BINARY_DIR}/include")
    target_link_libraries(${objects} PRIVATE ${its_LIBRARIES})

    add_library(sluice_${name} SHARED $<TARGET_OBJECTS:${objects}>)
    add_library(sluice::${name} ALIAS sluice_${name})
    set_target_properties(sluice_${name} PROPERTIES
        LINKER_LANGUAGE C
        OUTPUT_NAME sluice-${name}
        EXPORT_NAME ${name}
        VERSION ${PROJECT_VERSION}
        SOVERSION ${SLUICE_ABI}
        LINK_DEPENDS "${version_script}")
    sluice_link(sluice_${name})
    target_link_options(sluice_${name} PRIVATE "LINKER:--version-script=${version_script}" LINKER:--no-undefined)
    target_link_libraries(sluice_${name} PUBLIC sluice PRIVATE ${its_LIBRARIES})
    sluice_archive(sluice-${name} ${objects})
endfunction()
