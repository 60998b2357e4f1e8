#!/usr/bin/env bash
# Runs an x86-64 test binary on an emulated CPU with AVX-512 (f, bw, vl, dq, vnni).
#
#   scripts/avx512-emulated.sh BINARY [ARGS...]
#
# On a CPU with avx512_vnni, the binary runs directly. Otherwise the script boots a small Linux in
# Bochs, whose Ice Lake model implements the instructions, and runs the binary there. The exit
# status is the binary's. 124: the time ran out; 125: the emulator could not be set up or did not
# boot; 2: wrong usage. The script's status lines go to stderr.
#
# The guest has the binary, its shared libraries, and no other file, so tests must not read
# fixtures. It has one CPU and executes about 20 to 40 million instructions/s.
#
# Variables that start with RUST_ or SPIREA_ are passed to the binary. Settings:
#   AVX512_EMULATED_TIMEOUT  seconds for boot and run together (default 900)
#   AVX512_EMULATED_MEMORY   guest memory in MiB (default 512)
#   AVX512_EMULATED_CACHE    folder for the kernel (default target/avx512-emulated)
#   AVX512_EMULATED_FORCE    1: emulate even if the CPU has avx512_vnni
#
# Debian packages (installed if missing, which needs root): see $packages.
set -euo pipefail

say() { echo "avx512-emulated: $*" >&2; }
fail() { say "$*"; exit 125; }

[ $# -ge 1 ] || { say "usage: $0 BINARY [ARGS...]"; exit 2; }
binary=$1
shift
if ! [ -f "$binary" ] || ! [ -x "$binary" ]; then say "$binary is not an executable file"; exit 2; fi
case $binary in */*) ;; *) binary=./$binary ;; esac
if [ "${AVX512_EMULATED_FORCE:-0}" != 1 ] && grep -qw avx512_vnni /proc/cpuinfo; then
    exec "$binary" "$@"
fi
linkage=$(LC_ALL=C ldd "$binary" 2>&1) || true # a static binary has no libraries, which ldd calls an error
[[ $linkage != *"not found"* ]] || { say "$binary lacks libraries: $linkage"; exit 2; }

timeout=${AVX512_EMULATED_TIMEOUT:-900}
cache=${AVX512_EMULATED_CACHE:-$(dirname "$0")/../target/avx512-emulated}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d "$cache/run.XXXXXX")
emulator=
cleanup() {
    if [ -n "$emulator" ]; then
        kill "$emulator" 2>/dev/null || true
        # If it has been stopped and continued, `script` waits for a child that has already ended.
        for _ in $(seq 50); do
            kill -0 "$emulator" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$emulator" 2>/dev/null || true
        wait "$emulator" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# ---- packages and kernel (once; the lock is for concurrent runs) ----------------------------
exec 9>"$cache/lock"
flock 9
log=$cache/apt.log
packages="bochs bochs-term bochsbios vgabios isolinux syslinux-common xorriso busybox-static"
missing=
for p in $packages; do
    dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=" $p"
done
apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o APT::Sandbox::User=root "$@" >>"$log" 2>&1; }
if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || fail "needs a Debian system with these packages:$missing"
    [ "$(id -u)" = 0 ] || fail "not root; install first: apt-get install --no-install-recommends$missing"
    say "installing$missing"
    # shellcheck disable=SC2086 # a list of words
    apt install --no-install-recommends $missing ||
        { apt update && apt install --no-install-recommends $missing; } ||
        fail "installing failed: $(tail -n 3 "$log")"
fi
if ! [ -s "$cache/vmlinuz" ]; then
    # Unpack the package without installing it, so that this machine's own boot set-up is not
    # changed.
    kernel() { apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1; }
    fetch() { [ -n "$(kernel)" ] && (cd "$work" && apt download "$(kernel)"); }
    say "downloading the guest's kernel"
    fetch || { apt update && fetch; } || fail "no kernel package: $(tail -n 3 "$log")"
    dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb | tar -xf - -C "$work" --wildcards './boot/vmlinuz-*'
    mv "$work"/boot/vmlinuz-* "$cache/vmlinuz"
    rm -rf "${work:?}/boot" "$work"/*.deb
fi
flock -u 9

# ---- boot image: initramfs with busybox and the binary, isolinux as the loader --------------
mark="spirea-$$-$RANDOM$RANDOM" # random, so that no test output can look like a marker line
root=$work/root
iso=$work/iso
mkdir -p "$root"/{bin,dev,proc,sys,tmp} "$iso/isolinux"
cp "$(command -v busybox || echo /bin/busybox)" "$root/bin/busybox"
strip --strip-debug -o "$root/binary" "$binary" 2>/dev/null || cp "$binary" "$root/binary"
while read -r library; do
    install -D "$library" "$root$library"
done < <(grep -o '/[^ ]*' <<<"$linkage" | grep '\.so')
{
    for v in "${!RUST_@}" "${!SPIREA_@}"; do printf 'export %s=%q\n' "$v" "${!v}"; done
    printf '/binary'
    [ $# = 0 ] || printf ' %q' "$@"
    echo
} >"$root/run"
cat >"$root/init" <<EOF
#!/bin/busybox sh
busybox() { /bin/busybox "\$@"; }
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs tmp /tmp
busybox stty raw -echo </dev/ttyS0
exec </dev/null >/dev/ttyS0 2>&1
echo "$mark begin \$(busybox grep -cw avx512_vnni /proc/cpuinfo)"
busybox sh /run
status=\$?
[ \$status -lt 128 ] || { echo; busybox dmesg | busybox grep -E ' segfault at | traps: |Out of memory'; }
echo
echo "$mark end \$status"
busybox stty raw </dev/ttyS0 # waits until the line has sent everything
busybox sleep 1
busybox reboot -f
EOF
chmod +x "$root/init" "$root/binary"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$iso/initrd"
cp "$cache/vmlinuz" "$iso/vmlinuz"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$iso/isolinux/"
# clearcpuid: fsrm, because Bochs has fast strings off in MISC_ENABLE; the kernel then drops
#   erms but not fsrm, and its memmove is wrong for short copies. xsavec, xsaves, pku: the sizes
#   Bochs reports for these disagree with the kernel's, which would turn XSAVE, so AVX-512, off.
# reboot=t: a triple fault, on which Bochs exits; panic=-1 leads there too.
# The other options shorten the boot: console output and the crypto self-tests cost most.
cat >"$iso/isolinux/isolinux.cfg" <<EOF
DEFAULT linux
PROMPT 0
LABEL linux
 KERNEL /vmlinuz
 INITRD /initrd
 APPEND console=ttyS0 quiet loglevel=1 panic=-1 reboot=t clearcpuid=fsrm,xsavec,xsaves,pku,ospke nokaslr mitigations=off nosmp acpi=off lpj=400000 no_timer_check tsc=reliable cryptomgr.notests
EOF
xorriso -as mkisofs -quiet -o "$work/boot.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat \
    -no-emul-boot -boot-load-size 4 -boot-info-table "$iso" >"$work/xorriso.log" 2>&1 ||
    fail "cannot build the boot image: $(tail -n 3 "$work/xorriso.log")"
rm -rf "$root" "$iso"

# ---- run ----------------------------------------------------------------------------------
cat >"$work/bochsrc" <<EOF
megs: ${AVX512_EMULATED_MEMORY:-512}
cpu: model=corei7_icelake_u, count=1, ips=100000000, reset_on_triple_fault=0, ignore_bad_msrs=1
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
display_library: term
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$work/boot.iso, status=inserted
boot: cdrom
clock: sync=none
com1: enabled=1, mode=file, dev=$work/serial
speaker: enabled=0
log: $work/bochs.log
panic: action=fatal
error: action=report
info: action=ignore
EOF
echo c >"$work/debugger" # Debian's bochs has the debugger built in and waits for "continue"
: >"$work/serial"
say "booting"
SECONDS=0
# The text display needs a terminal, which `script` provides. On TERM, `script` also ends bochs.
TERM=vt100 script -qec "exec bochs-bin -q -f '$work/bochsrc' -rc '$work/debugger'" /dev/null \
    </dev/null >"$work/screen" 2>&1 9>&- &
emulator=$!
booted=
while kill -0 "$emulator" 2>/dev/null && ! grep -q "^$mark end" "$work/serial"; do
    if [ -z "$booted" ] && grep -q "^$mark begin" "$work/serial"; then
        booted=$SECONDS
        say "booted in $booted s, running"
    fi
    [ "$SECONDS" -lt "$timeout" ] || break
    sleep 0.5
done

status=$(sed -n "s/^$mark end \([0-9]*\)\r*$/\1/p" "$work/serial" | head -n 1)
sed -n "/^$mark begin/,/^$mark end/p" "$work/serial" | grep -v "^$mark " | tr -d '\r' | sed '${/^$/d}' || true
if grep -q "^$mark begin 0" "$work/serial"; then fail "the guest's kernel did not enable AVX-512"; fi
if [ -n "$status" ]; then say "status $status after $SECONDS s"; exit "$status"; fi
if grep -q "^$mark begin" "$work/serial"; then
    [ "$SECONDS" -lt "$timeout" ] || { say "no end after $timeout s (AVX512_EMULATED_TIMEOUT)"; exit 124; }
    fail "the emulator stopped before the binary ended: $(tail -n 5 "$work/serial" "$work/bochs.log")"
fi
fail "the emulated machine did not boot in $SECONDS s: $(tail -n 15 "$work/serial" "$work/bochs.log" 2>&1)"
