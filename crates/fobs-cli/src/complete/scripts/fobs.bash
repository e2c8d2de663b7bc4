
# Locations, running copies and pages: fobs itself knows them. What it prints begins where the word at the
# cursor does for readline, which may be behind its last ':', '@' or '='.
_fobs_asked() {
    local said word
    if ! said=$(command fobs complete bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null); then
        _fobs "$@"
        return
    fi
    COMPREPLY=()
    while IFS= read -r word; do
        case $word in
            '') ;;
            */ | *: | *=) COMPREPLY+=("$word") ;;
            *) COMPREPLY+=("$word ") ;;
        esac
    done <<<"$said"
    compopt +o default +o bashdefault -o nospace 2>/dev/null
}

complete -F _fobs_asked -o bashdefault -o default fobs
