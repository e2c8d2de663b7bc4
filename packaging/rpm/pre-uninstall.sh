if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl --quiet stop fobs.service fobs.socket fobs-jobs.service || true
fi
