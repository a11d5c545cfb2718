# fish completion for sluice-probe

complete -c sluice-probe -l frames -d 'a line for each tag'
complete -c sluice-probe -l json -d 'JSON instead of text'
complete -c sluice-probe -l duration -x -d 'seconds of media to stop after'
complete -c sluice-probe -l count -x -d 'frames to stop after'
complete -c sluice-probe -l timeout -x -d 'seconds that nothing may come for'
complete -c sluice-probe -l backend -x -a 'auto uring epoll' -d 'what to wait with'
complete -c sluice-probe -l help -d 'show the options'
complete -c sluice-probe -l version -d 'show the version'
