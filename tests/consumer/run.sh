#!/usr/bin/env bash
# Builds and runs the consumer against an installed prefix, found by CMake and by pkg-config.
# Usage: run.sh PREFIX LIBDIR BUILD-DIR VERSION
set -euo pipefail

prefix=$1
libdir=$prefix/$2
build=$3
version=$4
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cmake=${CMAKE:-cmake}
cc=${CC:-cc}

expected="hello world
sluice $version, 0 blocks held"

expected_libevent="a turn in libevent"
expected_tls="a context for TLS"

check() {
    local output
    output=$("${@:2}")
    if [[ $output != "$expected" ]]; then
        printf '%s: the program printed:\n%s\nnot:\n%s\n' "$1" "$output" "$expected" >&2
        exit 1
    fi
    printf '%s: as expected\n' "$1"
}

rm -rf "$build"
mkdir -p "$build"
"$cmake" -S "$source" -B "$build/cmake" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_COMPILER=$cc"
"$cmake" --build "$build/cmake"
check 'find_package' "$build/cmake/consumer"
expected=$expected_libevent check 'find_package, libevent' "$build/cmake/consumer-libevent"
expected=$expected_libevent check 'find_package, libevent, static' "$build/cmake/consumer-libevent-static"
expected=$expected_tls check 'find_package, tls' "$build/cmake/consumer-tls"
expected=$expected_tls check 'find_package, tls, static' "$build/cmake/consumer-tls-static"
for adapter in libevent tls; do
    if readelf -d "$build/cmake/consumer-$adapter-static" | grep -q libsluice; then
        echo "sluice::$adapter-static is a shared library" >&2
        exit 1
    fi
done

# Moved to another place, the prefix still works, and only what the .pc file says is needed.
cp -a "$prefix" "$build/moved"
moved=$build/moved/$2
export PKG_CONFIG_PATH=$moved/pkgconfig
[[ $(pkg-config --modversion sluice) == "$version" ]]
read -ra flags <<<"$(pkg-config --cflags --libs sluice)"
"$cc" -Wall -Wextra -Werror "$source/main.c" "${flags[@]}" -o "$build/by-pkg-config"
check 'pkg-config' env "LD_LIBRARY_PATH=$moved" "$build/by-pkg-config"
[[ $(pkg-config --modversion sluice-libevent) == "$version" ]]
read -ra flags <<<"$(pkg-config --cflags --libs sluice-libevent libevent_core)"
"$cc" -Wall -Wextra -Werror "$source/libevent.c" "${flags[@]}" -o "$build/libevent-by-pkg-config"
expected=$expected_libevent check 'pkg-config, libevent' env "LD_LIBRARY_PATH=$moved" "$build/libevent-by-pkg-config"
[[ $(pkg-config --modversion sluice-tls) == "$version" ]]
read -ra flags <<<"$(pkg-config --cflags --libs sluice-tls)"
"$cc" -Wall -Wextra -Werror "$source/tls.c" "${flags[@]}" -o "$build/tls-by-pkg-config"
expected=$expected_tls check 'pkg-config, tls' env "LD_LIBRARY_PATH=$moved" "$build/tls-by-pkg-config"

# The examples compile as they are installed, by the lines of their README.
examples=$build/moved/share/doc/libsluice-dev/examples
count=0
for example in "$examples"/*.c; do
    modules=(sluice)
    case ${example##*/} in
    in_libevent.c) modules=(sluice-libevent libevent) ;;
    https_get.c | tls_echo.c) modules=(sluice-tls) ;;
    esac
    read -ra flags <<<"$(pkg-config --cflags --libs "${modules[@]}")"
    "$cc" -Wall -Wextra -Wno-unused-parameter -Werror "$example" "${flags[@]}" -o "$build/example"
    count=$((count + 1))
done
((count >= 8))
printf '%s examples: as expected\n' "$count"

[[ $("$build/moved/bin/sluiced" --version) == *"$version"* ]]
[[ -e $libdir/libsluice.so.0 ]]
printf 'sluiced --version: as expected\n'
