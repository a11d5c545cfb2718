#!/usr/bin/env bash
# Builds the library alone, where there is nothing but liburing to be found, installs it, and links a program to it: shared,
# static, and static with nothing but what the program calls.
# Usage: library.sh SOURCE BUILD-DIR VERSION
set -euo pipefail

source=$1
build=$2
version=$3
cmake=${CMAKE:-cmake}
cc=${CC:-cc}
prefix=$build/prefix

fail() {
    echo "library: $*" >&2
    exit 1
}

rm -rf "$build"
mkdir -p "$build/pkgconfig"
cp "$(pkg-config --variable=pcfiledir liburing)/liburing.pc" "$build/pkgconfig"
# pkg-config sees this folder alone. What is built is looked at, not how fast it is.
PKG_CONFIG_LIBDIR=$build/pkgconfig "$cmake" -S "$source" -B "$build/cmake" -G Ninja "-DCMAKE_INSTALL_PREFIX=$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG" \
    -DSLUICE_DAEMON=OFF -DSLUICE_TOOLS=OFF >"$build/configure.log" ||
    { cat "$build/configure.log" && fail "does not configure"; }
"$cmake" --build "$build/cmake" >"$build/build.log" || { tail "$build/build.log" && fail "does not build"; }
"$cmake" --install "$build/cmake" >"$build/install.log"

needed=$(readelf -d "$prefix/lib/libsluice.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
[[ $needed == "libc.so.6 liburing.so.2 " ]] || fail "libsluice.so needs $needed"
modules=$(grep 'Checking for module' "$build/configure.log")
[[ $modules == "-- Checking for module 'liburing"* && $(wc -l <<<"$modules") == 1 ]] || fail "looks for more: $modules"
[[ ! -e $prefix/bin && ! -e $prefix/share/man/man1 && ! -e $prefix/lib/systemd && ! -e $prefix/include/sluice/libevent.h &&
    ! -e $prefix/lib/pkgconfig/sluice-libevent.pc && ! -e $prefix/include/sluice/tls.h && ! -e $prefix/lib/pkgconfig/sluice-tls.pc ]] || fail "installs something of the programs or the adapters"
"$source/tools/check-exports" "$prefix/lib/libsluice.so"

# What the static library makes known is what the shared one does: no name of ours meets one of the program's.
names() {
    nm "$@" --defined-only --format=posix | awk '$2 ~ /[TDBRVW]/ { sub(/@.*/, "", $1); print $1 }' | sort
}
diff -u <(names -D "$prefix/lib/libsluice.so") <(names "$prefix/lib/libsluice.a" | grep -v ':') || fail "libsluice.a has other names"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
flags() {
    pkg-config "$@" --cflags --libs sluice
}
expected="hello world
sluice $version, 0 blocks held"
try() {
    local name=$1
    shift
    "$cc" -Wall -Wextra -Werror "$source/tests/consumer/main.c" "$@" -o "$build/$name"
    [[ $(LD_LIBRARY_PATH=$prefix/lib "$build/$name") == "$expected" ]] || fail "$name does not run"
    strip "$build/$name"
    echo "library: $name: $(stat -c %s "$build/$name") bytes"
}
read -ra shared <<<"$(flags)"
read -ra static <<<"$(flags --static)"
try shared "${shared[@]}"
try static "${static[@]/#-lsluice/-l:libsluice.a}"
try gc-sections -Wl,--gc-sections "${static[@]/#-lsluice/-l:libsluice.a}"
try wholly-static -static "${static[@]}"
readelf -d "$build/gc-sections" | grep -q libsluice && fail "the static program needs the shared library"
# A program that uses pool, chain and reader has nothing of the framers and the loop.
(($(stat -c %s "$build/gc-sections") * 4 < $(stat -c %s "$build/static"))) || fail "--gc-sections leaves too much"

"$cmake" -S "$source/tests/consumer" -B "$build/consumer" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_COMPILER=$cc" \
    -DCONSUMER_STATIC=ON >"$build/consumer.log" || { cat "$build/consumer.log" && fail "find_package does not find it"; }
"$cmake" --build "$build/consumer" >"$build/consumer.log" || { cat "$build/consumer.log" && fail "sluice::static does not link"; }
[[ $("$build/consumer/consumer") == "$expected" ]] || fail "the consumer does not run"
if readelf -d "$build/consumer/consumer" | grep -q libsluice; then
    fail "sluice::static is the shared library"
fi
if "$cmake" -S "$source/tests/consumer" -B "$build/libevent" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_COMPILER=$cc" \
    >"$build/consumer.log" 2>&1; then
    fail "a component that was not built is found"
fi
grep -q "libevent" "$build/consumer.log" || fail "the missing component is not named"
echo "library: as expected"
