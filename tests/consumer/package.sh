#!/usr/bin/env bash
# Makes the packages of a build that is configured for /usr, unpacks them, and tries what is in them.
# Usage: package.sh SOURCE BUILD-DIR VERSION
set -euo pipefail

source=$1
build=$2
version=$3
cmake=${CMAKE:-cmake}
cpack=$(dirname "$(command -v "$cmake")")/cpack
worst_exposure=1.5

for tool in dpkg-deb dpkg-shlibdeps systemd-analyze; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: no $tool"
        exit 77
    fi
done

rm -rf "$build"
"$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_INSTALL_LIBDIR=lib -DSLUICE_BUILD_TESTS=OFF "-DCMAKE_C_COMPILER=${CC:-cc}"
"$cmake" --build "$build"
(cd "$build" && "$cpack" -G "DEB;TGZ")

deb=("$build"/*.deb)
archive=("$build"/*.tar.gz)
mkdir "$build/deb" "$build/archive"
dpkg-deb -x "${deb[0]}" "$build/deb"
tar -xzf "${archive[0]}" -C "$build/archive" --strip-components=1

# What the libraries come from is found by dpkg, not written by us.
depends=$(dpkg-deb -f "${deb[0]}" Depends)
for library in libc6 liburing2 libevent libssl3 libconfig; do
    [[ $depends == *"$library"* ]] || {
        echo "the package does not depend on $library: $depends" >&2
        exit 1
    }
done

try() {
    local root=$1 said
    said=$("$root/bin/sluiced" --version)
    [[ $said == "sluiced $version" ]]
    said=$("$root/bin/sluiced" --config "$root/share/doc/sluice/sluiced.conf" --check)
    [[ $said == OK ]]
    "$root/bin/sluice-probe" --version
    grep -qx "ExecStart=/usr/bin/sluiced --config /etc/sluice/sluiced.conf" "$root/lib/systemd/system/sluiced.service"
    grep -qx "ListenStream=127.0.0.1:8080" "$root/lib/systemd/system/sluiced.socket"
}
try "$build/deb/usr"
try "$build/archive/usr"

# The service gives up what it does not need.
unit=$build/deb/usr/lib/systemd/system/sluiced.service
systemd-analyze security --offline=true --threshold="${worst_exposure/./}" "$unit" | tail -n 1
echo "the packages are as expected"
