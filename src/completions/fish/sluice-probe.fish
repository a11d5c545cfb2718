# fish completion for sluice-probe, written by tools/settings-docs

complete -c sluice-probe -l frames -d 'Print a line per tag: offset, kind, dts, pts, size, key and codec'
complete -c sluice-probe -l json -d 'Print one JSON document'
complete -c sluice-probe -l duration -x -d 'Stop after this many seconds of media, fractions allowed'
complete -c sluice-probe -l count -x -d 'Stop after this many frames'
complete -c sluice-probe -l timeout -x -d 'Stop if a server sends nothing for this long'
complete -c sluice-probe -l tls-ca -r -F -d 'With TLS: trust the certificates in FILE instead of the system\'s'
complete -c sluice-probe -l tls-pin -x -d 'With TLS: accept only a certificate with this hash'
complete -c sluice-probe -l backend -x -a 'auto uring epoll' -d 'Select auto, uring or epoll'
complete -c sluice-probe -l help -d 'Print this help and exit'
complete -c sluice-probe -l version -d 'Print the version and exit'
