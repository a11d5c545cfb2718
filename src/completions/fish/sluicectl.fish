# fish completion for sluicectl, written by tools/settings-docs

complete -c sluicectl -f -a 'status streams players publishers pulls forwards recordings stream kick record pull unpull reload upgrade config version workers top'
complete -c sluicectl -l admin -x -d 'Set the address of the administration'
complete -c sluicectl -l token-file -r -F -d 'Send the token in the first line of FILE'
complete -c sluicectl -l ban -x -d 'With kick: ban the publisher\'s host from the stream'
complete -c sluicectl -l ttl -x -d 'With pull: end it after this time'
complete -c sluicectl -l on-demand -d 'With pull: connect while there are players only'
complete -c sluicectl -l slow -d 'With players: list slow players only'
complete -c sluicectl -l interval -x -d 'With top: set the time between updates'
complete -c sluicectl -l count -x -d 'With top: quit after N updates'
complete -c sluicectl -l json -d 'Print the server\'s response unchanged'
complete -c sluicectl -l help -d 'Print this help and exit'
complete -c sluicectl -l version -d 'Print the version and exit'
