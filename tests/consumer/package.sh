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

for tool in dpkg dpkg-deb dpkg-shlibdeps systemd-analyze; do
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
    for document in LICENSE README.md SECURITY.md; do
        cmp "$source/$document" "$root/share/doc/sluice/$document"
    done
    cmp "$source/LICENSE" "$root/share/doc/sluice/copyright"
}
try "$build/deb/usr"
try "$build/archive/usr"

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
run_dpkg -i "${deb[0]}"
[[ -e $unit ]]
expect_calls daemon-reload
# The same again is an upgrade: what runs is not interrupted, and the new program takes over.
run_dpkg -i "${deb[0]}"
expect_calls daemon-reload "--quiet is-active sluiced.service" \
    "kill --kill-who=main --signal=USR2 sluiced.service"
mkdir -p "$system/etc/sluice" "$system/var/lib/private/sluice/recordings"
echo secret >"$system/etc/sluice/users"
echo FLV >"$system/var/lib/private/sluice/recordings/a.flv"
ln -s private/sluice "$system/var/lib/sluice"
run_dpkg -r sluice
[[ ! -e $unit && -e $system/etc/sluice/users ]]
expect_calls "--no-reload disable --now sluiced.socket sluiced.service" daemon-reload
run_dpkg -P sluice
[[ ! -e $system/etc/sluice && -e $system/var/lib/sluice/recordings/a.flv ]]
# And without recordings nothing stays.
rm -r "$system/var/lib/private/sluice/recordings"
run_dpkg -i "${deb[0]}"
run_dpkg -P sluice
expect_calls "--no-reload disable --now sluiced.socket sluiced.service" daemon-reload
[[ ! -e $system/var/lib/sluice && ! -L $system/var/lib/sluice && ! -e $system/var/lib/private/sluice ]]
# Where systemd does not run, nobody asks it for anything.
rm -r "$system/run/systemd"
run_dpkg -i "${deb[0]}"
run_dpkg -P sluice
[[ ! -s $calls ]]

# The service gives up what it does not need.
unit=$build/deb/usr/lib/systemd/system/sluiced.service
systemd-analyze security --offline=true --threshold="${worst_exposure/./}" "$unit" | tail -n 1
echo "the packages are as expected"
