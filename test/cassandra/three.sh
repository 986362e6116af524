#!/bin/bash
# three.sh start|stop BASE_DIR [FIRST_OCTET]   - three nodes 127.0.0.N, N+1, N+2 (default 1,2,3); HEAP=1G each unless set; one after the other
set -eu
here="$(cd "$(dirname "$0")" && pwd)"; B="${2:?}"; F="${3:-1}"; export SEEDS=127.0.0.$F CLUSTER="${CLUSTER:-three-$F}" HEAP="${HEAP:-1G}"
for i in 0 1 2; do
  if [ "$1" = stop ]; then "$here/stop.sh" "$B/$((i+1))" & continue; fi
  "$here/start.sh" "$B/$((i+1))" "127.0.0.$((F+i))"
  for t in $(seq 60); do [ "$("$here/nodetool.sh" "$B/1" status 2>/dev/null | grep -c '^UN')" -ge $((i+1)) ] && break; sleep 1; done
done; wait
[ "$1" = stop ] || "$here/nodetool.sh" "$B/1" status
