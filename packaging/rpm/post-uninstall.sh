if [ "$1" = 0 ]; then
    rm -rf /var/lib/fobs
    if getent passwd fobs >/dev/null; then
        userdel fobs || true
    fi
fi
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
fi
