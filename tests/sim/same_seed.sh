#!/bin/sh
# Usage: same_seed.sh SIMULATE SEEDS: what happens follows from the seed alone. Plays each twice, and other ones, too.
set -eu
one=$("$1" --seeds "$2" --digest | grep '^seed')
other=$("$1" --seeds "$2" --digest | grep '^seed')
[ "$one" = "$other" ] || { echo "the same seeds gave other events"; exit 1; }
# Played by themselves, in another order of memory, they are the same; and no two of them are alike.
last=$("$1" --seed "$2" --digest | grep '^seed')
[ "$last" = "$(echo "$one" | tail -n 1)" ] || { echo "seed $2 alone gave other events than behind others"; exit 1; }
[ "$(echo "$one" | sed 's/.*: //' | sort -u | wc -l)" -eq "$2" ] || { echo "two seeds gave the same events"; exit 1; }
