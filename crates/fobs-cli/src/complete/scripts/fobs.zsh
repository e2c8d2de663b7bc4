
# Locations, running copies and pages: fobs itself knows them.
_fobs() {
    local said word
    local -a ended open
    if ! said=$(command fobs complete zsh -- "${(j: :)words[1,CURRENT-1]} ${QIPREFIX}${PREFIX}" 2>/dev/null); then
        _fobs_options "$@"
        return
    fi
    for word in "${(@f)said}"; do
        case $word in
            '') ;;
            */ | *: | *=) open+=("$word") ;;
            *) ended+=("$word") ;;
        esac
    done
    (( ${#ended} )) && compadd -Q -- "${ended[@]}"
    (( ${#open} )) && compadd -Q -S '' -- "${open[@]}"
    (( ${#ended} + ${#open} ))
}

