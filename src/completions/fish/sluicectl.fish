# fish completion for sluicectl

complete -c sluicectl -f -a 'status streams players publishers pulls recordings stream kick record reload upgrade config version workers top'
complete -c sluicectl -l admin -x -d 'where the administration listens'
complete -c sluicectl -l token-file -r -F -d 'token of the administration'
complete -c sluicectl -l ban -x -d 'with kick: how long'
complete -c sluicectl -l slow -d 'with players: only those who are slow'
complete -c sluicectl -l interval -x -d 'with top: between two looks'
complete -c sluicectl -l count -x -d 'with top: how many looks'
complete -c sluicectl -l json -d 'what the server says, as it is'
complete -c sluicectl -l help -d 'show the options'
complete -c sluicectl -l version -d 'show the version'
