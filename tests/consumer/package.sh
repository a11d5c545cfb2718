#!/usr/bin/env bash
# Makes the packages of a build that is configured for /usr, unpacks them, and tries what is in them.
# Usage: package.sh SOURCE BUILD-DIR VERSION [BUILT]
# BUILT is such a build, with everything built; without one it is made here, of nothing but what is packaged.
set -euo pipefail

source=$1
build=$2
version=$3
built=${4:-$build}
cmake=${CMAKE:-cmake}
cpack=$(dirname "$(command -v "$cmake")")/cpack
worst_exposure=1.5

for tool in dpkg dpkg-deb dpkg-shlibdeps systemd-analyze; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: no $tool"
        exit 77
    fi
done

rm -rf "$build"
# What is packaged is looked at, not how fast it is.
"$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG" \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib -DSLUICE_BUILD_TESTS=OFF -DSLUICE_BUILD_EXAMPLES=OFF "-DCMAKE_C_COMPILER=${CC:-cc}"
if [[ $built == "$build" ]]; then
    "$cmake" --build "$build"
else
    # What is packaged can be built alone.
    "$cmake" --build "$build" -- -n >/dev/null
fi
"$cpack" --config "$built/CPackConfig.cmake" -G "DEB;TGZ" -B "$build"

fail() {
    echo "$*" >&2
    exit 1
}

packages=(libsluice0 libsluice-dev libsluice-libevent0 libsluice-tls0 sluiced)
declare -A deb
for file in "$build"/*.deb; do
    deb[$(dpkg-deb -f "$file" Package)]=$file
done
[[ $(printf '%s\n' "${!deb[@]}" | sort) == $(printf '%s\n' "${packages[@]}" | sort) ]] || fail "these were made: ${!deb[*]}"
archive=("$build"/*.tar.gz)
mkdir "$build/deb" "$build/archive"
for package in "${packages[@]}"; do
    mkdir "$build/deb/$package"
    dpkg-deb -x "${deb[$package]}" "$build/deb/$package"
done
tar -xzf "${archive[0]}" -C "$build/archive" --strip-components=1

# Dependencies: of other projects as dpkg finds them, not as we write them.
depends() {
    local depends package
    depends=$(dpkg-deb -f "${deb[$1]}" Depends | sed 's/ *([^)]*)//g; s/, /\n/g' | sort)
    shift
    [[ $depends == "$(printf '%s\n' "$@" | sort)" ]] || fail "depends on:" "$depends" "and not on: $*"
}
depends libsluice0 libc6 liburing2
depends libsluice-libevent0 libc6 libsluice0 libevent-core-2.1-7
depends libsluice-tls0 libc6 libsluice0 libssl3
depends libsluice-dev libsluice0 libsluice-libevent0 libsluice-tls0 liburing-dev
for library in "libsluice0 (= $version)" libc6 libevent libssl libconfig libjansson; do
    [[ $(dpkg-deb -f "${deb[sluiced]}" Depends) == *"$library"* ]] || fail "sluiced does not depend on $library"
done
[[ $(dpkg-deb -f "${deb[sluiced]}" Depends) != *liburing* ]] || fail "sluiced uses io_uring by itself"

# Each says what it is: a line, and some more.
for package in "${packages[@]}"; do
    [[ $(dpkg-deb -f "${deb[$package]}" Description) =~ ^[a-z][^$'\n']{20,59}$'\n' ]] ||
        fail "$package: $(dpkg-deb -f "${deb[$package]}" Description)"
done

# What is in each: the files, but for headers, man pages of functions and examples, of which there are many.
contents() {
    (cd "$build/deb/$1/usr" && find . ! -type d ! -path './include/sluice/*' ! -name 'sluice_*.3*' ! -path '*/examples/*' |
        sed 's,^\./,,; s,\.gz$,,' | sort)
}
expect_contents() {
    local package=$1
    shift
    diff -u <(printf '%s\n' "$@" "share/doc/$package/"{copyright,changelog} | sort) <(contents "$package") ||
        fail "$package has other files"
    cmp "$source/LICENSE" "$build/deb/$package/usr/share/doc/$package/copyright"
}
expect_contents libsluice0 lib/libsluice.so.0 "lib/libsluice.so.$version"
expect_contents libsluice-libevent0 lib/libsluice-libevent.so.0 "lib/libsluice-libevent.so.$version"
expect_contents libsluice-tls0 lib/libsluice-tls.so.0 "lib/libsluice-tls.so.$version"
cmake_files=(sluice-config.cmake sluice-config-version.cmake sluice-targets.cmake sluice-targets-relwithdebinfo.cmake
    sluice-libevent-targets.cmake sluice-libevent-targets-relwithdebinfo.cmake sluice-tls-targets.cmake
    sluice-tls-targets-relwithdebinfo.cmake)
expect_contents libsluice-dev lib/libsluice.a lib/libsluice-libevent.a lib/libsluice-tls.a lib/libsluice.so lib/libsluice-libevent.so \
    lib/libsluice-tls.so lib/pkgconfig/sluice.pc lib/pkgconfig/sluice-libevent.pc lib/pkgconfig/sluice-tls.pc "${cmake_files[@]/#/lib/cmake/sluice/}" share/man/man3/sluice.3 \
    share/doc/libsluice-dev/README.md
for path in include/sluice/{sluice,version,libevent,tls,conn}.h share/man/man3/sluice_{conn,conn_new,libevent,tls}.3.gz \
    share/doc/libsluice-dev/examples/{README.md,flv_tags.c}; do
    [[ -e $build/deb/libsluice-dev/usr/$path ]] || fail "libsluice-dev lacks $path"
done
programs=()
for program in sluiced sluicectl sluice-probe sluice-push; do
    section=1
    [[ $program != sluiced ]] || section=8
    programs+=("bin/$program" "share/man/man$section/$program.$section" "share/bash-completion/completions/$program"
        "share/zsh/site-functions/_$program" "share/fish/vendor_completions.d/$program.fish")
done
documents=(sluiced.conf README.md SECURITY.md README.daemon.md README.acme.md acme-deploy-hook prometheus-rules.yml)
# The console's player, where there is a registry to have it from.
[[ ! -e $build/deb/sluiced/usr/share/doc/sluiced/LICENSE.mpegts.js ]] || documents+=(LICENSE.mpegts.js)
expect_contents sluiced "${programs[@]}" lib/systemd/system/sluiced.service lib/systemd/system/sluiced.socket \
    "${documents[@]/#/share/doc/sluiced/}"

try() {
    local root=$1 said
    said=$("$root/bin/sluiced" --version)
    [[ $said == "sluiced $version" ]]
    said=$("$root/bin/sluiced" --config "$root/share/doc/sluiced/sluiced.conf" --check)
    [[ $said == OK ]]
    "$root/bin/sluice-probe" --version
    grep -qx "ExecStart=/usr/bin/sluiced --config /etc/sluice/sluiced.conf" "$root/lib/systemd/system/sluiced.service"
    grep -q "cp /usr/share/doc/sluiced/sluiced.conf /etc/sluice/" "$root/lib/systemd/system/sluiced.service"
    grep -qx "ListenStream=127.0.0.1:8080" "$root/lib/systemd/system/sluiced.socket"
    for document in README.md SECURITY.md; do
        cmp "$source/$document" "$root/share/doc/sluiced/$document"
    done
    cmp "$source/src/daemon/README.md" "$root/share/doc/sluiced/README.daemon.md"
    [[ -x $root/share/doc/sluiced/acme-deploy-hook ]]
    cmp "$source/LICENSE" "$root/share/doc/sluiced/copyright"
}
# Together as they lie on a system; the program finds its library by its place.
mkdir "$build/deb/all"
for package in "${packages[@]}"; do
    cp -a "$build/deb/$package/." "$build/deb/all"
done
try "$build/deb/all/usr"
try "$build/archive/usr"
list() {
    (cd "$1/usr" && find . ! -type d | sed 's/\.gz$//' | grep -v /changelog | sort)
}
diff -u <(list "$build/archive") <(list "$build/deb/all") ||
    fail "the archive has other files than the packages"

# What dpkg makes of it: installed beside this system, with a systemctl that only writes down what it is asked. Its scripts
# see that system by DPKG_ROOT.
system=$build/system
calls=$build/systemctl.calls
mkdir -p "$system/var/lib/dpkg/updates" "$system/var/lib/dpkg/info" "$system/run/systemd/system" "$build/fake"
: >"$system/var/lib/dpkg/status"
: >"$system/var/lib/dpkg/available"
cat >"$build/fake/systemctl" <<'END'
#!/bin/sh
echo "$*" >>"$SYSTEMCTL_CALLS"
END
printf '#!/bin/sh\n' >"$build/fake/ldconfig"
chmod 755 "$build/fake/systemctl" "$build/fake/ldconfig"

run_dpkg() {
    : >"$calls"
    SYSTEMCTL_CALLS=$calls PATH=$build/fake:$PATH dpkg --root="$system" --log=/dev/null --force-not-root \
        --force-script-chrootless --force-depends --force-bad-path "$@" >>"$build/dpkg.log" 2>&1 || {
        tail "$build/dpkg.log" >&2
        exit 1
    }
}

expect_calls() {
    printf '%s\n' "$@" | diff -u - "$calls" || {
        echo "systemctl was asked for something else" >&2
        exit 1
    }
}
unit=$system/usr/lib/systemd/system/sluiced.service
run_dpkg -i "${deb[libsluice0]}" "${deb[sluiced]}"
[[ -e $unit ]]
expect_calls daemon-reload
# The same again is an upgrade: what runs is not interrupted, and the new program takes over.
run_dpkg -i "${deb[libsluice0]}" "${deb[sluiced]}"
expect_calls daemon-reload "--quiet is-active sluiced.service" \
    "kill --kill-who=main --signal=USR2 sluiced.service"
mkdir -p "$system/etc/sluice" "$system/var/lib/private/sluice/recordings"
echo secret >"$system/etc/sluice/users"
echo FLV >"$system/var/lib/private/sluice/recordings/a.flv"
ln -s private/sluice "$system/var/lib/sluice"
run_dpkg -r sluiced
[[ ! -e $unit && -e $system/etc/sluice/users ]]
expect_calls "--no-reload disable --now sluiced.socket sluiced.service" daemon-reload
run_dpkg -P sluiced
[[ ! -e $system/etc/sluice && -e $system/var/lib/sluice/recordings/a.flv ]]
# And without recordings nothing stays.
rm -r "$system/var/lib/private/sluice/recordings"
run_dpkg -i "${deb[libsluice0]}" "${deb[sluiced]}"
run_dpkg -P sluiced
expect_calls "--no-reload disable --now sluiced.socket sluiced.service" daemon-reload
[[ ! -e $system/var/lib/sluice && ! -L $system/var/lib/sluice && ! -e $system/var/lib/private/sluice ]]
# Where systemd does not run, nobody asks it for anything.
rm -r "$system/run/systemd"
run_dpkg -i "${deb[libsluice0]}" "${deb[sluiced]}"
run_dpkg -P sluiced
[[ ! -s $calls ]]

# The service gives up what it does not need.
unit=$build/deb/all/usr/lib/systemd/system/sluiced.service
systemd-analyze security --offline=true --threshold="${worst_exposure/./}" "$unit" | tail -n 1
echo "the packages are as expected"
