# Sourced by the scripts beside it: may we install Debian packages, and how.

may_install() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null
}

# Installs packages without questions, without starting their services, and without upgrading one that is there:
# what is installed on the user's machine is the user's business.
# A package such as mosquitto would start its broker on the standard port: invoke-rc.d(8) asks
# policy-rc.d first, and 101 is "forbidden". One that is there already is left as it is.
install_packages() {
    local policy=/usr/sbin/policy-rc.d code=0
    if [ ! -e "$policy" ]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    apt_get update && apt_get install --yes --no-upgrade --no-install-recommends "$@" || code=$?
    return $code
}

apt_get() {
    local log
    log=$(mktemp)
    if DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
    else
        echo "apt-get $* failed:" >&2
        tail -n 15 "$log" >&2
        rm -f "$log"
        return 1
    fi
}
