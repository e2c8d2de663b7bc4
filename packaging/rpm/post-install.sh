if ! getent passwd fobs >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/fobs --no-create-home --shell /usr/sbin/nologin fobs
fi
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
fi
