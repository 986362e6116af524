#!/bin/bash
# What start.sh, stop.sh and nodetool.sh share. Every value can be set from the environment.
CASSANDRA_POM="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/pom.xml"
CASSANDRA_VERSION="${CASSANDRA_VERSION:-5.0.9}"
CASSANDRA_LIB="${CASSANDRA_LIB:-${XDG_CACHE_HOME:-$HOME/.cache}/apache-cassandra-$CASSANDRA_VERSION/lib}"
# Fetches the jars by their Maven coordinates when they are not here yet: all of them or none, and
# once, though several nodes may start at the same time.
cass_fetch() {
  mkdir -p "$(dirname "$CASSANDRA_LIB")"
  (
    flock 9
    [ -f "$CASSANDRA_LIB/cassandra-all-$CASSANDRA_VERSION.jar" ] && exit 0
    t=$(mktemp -d); cp "$CASSANDRA_POM" "$t/"
    part="$CASSANDRA_LIB.part"; rm -rf "$part"; mkdir -p "$part"
    cd "$t" && mvn -q -B -Dcassandra.version="$CASSANDRA_VERSION" dependency:copy-dependencies \
      -DoutputDirectory="$part" -DincludeScope=runtime || exit 1
    rm -rf "$t" "$CASSANDRA_LIB"; mv "$part" "$CASSANDRA_LIB"
  ) 9>"$CASSANDRA_LIB.lock"
}
JAVA17_OPTS=(
  -Djdk.attach.allowAttachSelf=true
  --add-exports java.base/jdk.internal.misc=ALL-UNNAMED
  --add-exports java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED
  --add-exports java.rmi/sun.rmi.registry=ALL-UNNAMED
  --add-exports java.rmi/sun.rmi.server=ALL-UNNAMED
  --add-exports java.rmi/sun.rmi.transport.tcp=ALL-UNNAMED
  --add-exports java.sql/java.sql=ALL-UNNAMED
  --add-exports java.base/java.lang.ref=ALL-UNNAMED
  --add-exports java.base/java.lang.reflect=ALL-UNNAMED
  --add-exports jdk.unsupported/sun.misc=ALL-UNNAMED
  --add-exports jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED
  --add-exports jdk.compiler/com.sun.tools.javac.api=ALL-UNNAMED
  --add-exports jdk.compiler/com.sun.tools.javac.tree=ALL-UNNAMED
  --add-exports jdk.compiler/com.sun.tools.javac.util=ALL-UNNAMED
  --add-opens java.base/java.lang.module=ALL-UNNAMED
  --add-opens java.base/jdk.internal.loader=ALL-UNNAMED
  --add-opens java.base/jdk.internal.ref=ALL-UNNAMED
  --add-opens java.base/jdk.internal.reflect=ALL-UNNAMED
  --add-opens java.base/jdk.internal.math=ALL-UNNAMED
  --add-opens java.base/jdk.internal.module=ALL-UNNAMED
  --add-opens java.base/jdk.internal.util.jar=ALL-UNNAMED
  --add-opens jdk.management/com.sun.management.internal=ALL-UNNAMED
  --add-opens java.base/sun.nio.ch=ALL-UNNAMED
  --add-opens java.base/java.io=ALL-UNNAMED
  --add-opens java.base/java.lang=ALL-UNNAMED
  --add-opens java.base/java.lang.reflect=ALL-UNNAMED
  --add-opens java.base/java.util=ALL-UNNAMED
  --add-opens java.base/java.util.concurrent=ALL-UNNAMED
  --add-opens java.base/java.util.concurrent.atomic=ALL-UNNAMED
  --add-opens java.base/java.nio=ALL-UNNAMED
  --add-opens java.base/java.net=ALL-UNNAMED
  --add-opens java.base/java.math=ALL-UNNAMED
  --add-opens jdk.compiler/com.sun.tools.javac=ALL-UNNAMED
)
