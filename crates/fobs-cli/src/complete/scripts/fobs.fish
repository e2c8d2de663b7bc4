
# Locations, running copies and pages: fobs itself knows them.
function __fobs_asked
    command fobs complete fish -- (commandline -cp | string collect) 2>/dev/null
end
function __fobs_writes_an_argument
    not string match -q -- '-*' (commandline -ct); and __fish_seen_subcommand_from $argv
end
complete -c fobs -n '__fobs_writes_an_argument cp sync doctor' -a '(__fobs_asked)'
complete -c fobs -n '__fobs_writes_an_argument ctl config man' -f -a '(__fobs_asked)'
