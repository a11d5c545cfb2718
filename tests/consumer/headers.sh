#!/usr/bin/env bash
# Compiles every public header by itself, as C and as C++, with all warnings as errors: a program that includes one of
# them gets none of ours. libevent's own header is the system's.
# Usage: headers.sh INCLUDE-DIR GENERATED-INCLUDE-DIR BUILD-DIR
set -euo pipefail

include=$1
generated=$2
build=$3
cc=${CC:-cc}
cxx=${CXX:-c++}
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -fsyntax-only)

if ! command -v "$cxx" >/dev/null; then
    echo "headers: no C++ compiler: tools/install-deps test brings one" >&2
    exit 77
fi
mkdir -p "$build"
failed=0
count=0
for header in "$include"/sluice/*.h "$generated"/sluice/*.h; do
    name=sluice/${header##*/}
    # Twice: a header guards itself.
    printf '#include <%s>\n#include <%s>\nextern int sluice_header_is_not_empty;\n' "$name" "$name" >"$build/header.c"
    cp "$build/header.c" "$build/header.cpp"
    for language in "$cc -std=c11" "$cc -std=gnu11" "$cxx -std=c++11" "$cxx -std=c++20"; do
        read -r compiler standard <<<"$language"
        source=$build/header.c
        [[ $standard != *++* ]] || source=$build/header.cpp
        if ! "$compiler" "$standard" "${warnings[@]}" -I"$include" -I"$generated" "$source"; then
            printf 'headers: %s does not compile cleanly as %s\n' "$name" "$standard" >&2
            failed=1
        fi
        count=$((count + 1))
    done
done
[[ $count -ge 100 ]] || { echo "headers: only $count were compiled" >&2; exit 1; }
exit $failed
