#!/bin/bash
# start.sh DATA_DIR [IP]   One Apache Cassandra node on a loopback address (default 127.0.0.1), CQL
# port 9042. It is the original by which our engine and our services are judged.
#
# From the environment: HEAP=768M NEWSIZE= SEEDS=(the IP) CASSANDRA_VERSION=5.0.9 CQL_PORT=9042
#   PROFILE=latest|legacy COMMITLOG_SYNC=periodic|batch CLUSTER=test DC=datacenter1 RACK=rack1
#   JAVA=java AUTH=0|1 LIMITS=release|wide (batch limits and timeouts)
#   TOKENS= (the node's only tokens, with commas: nodes of a new cluster that are all seeds and say
#   theirs need not wait for each other)
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"; . "$here/env.sh"
DATA="${1:?usage: start.sh DATA_DIR [IP]}"; IP="${2:-127.0.0.1}"
HEAP="${HEAP:-768M}"; SEEDS="${SEEDS:-$IP}"; PROFILE="${PROFILE:-latest}"; CQL_PORT="${CQL_PORT:-9042}"
COMMITLOG_SYNC="${COMMITLOG_SYNC:-periodic}"; CLUSTER="${CLUSTER:-test}"; DC="${DC:-datacenter1}"; RACK="${RACK:-rack1}"
LIMITS="${LIMITS:-release}"; AUTH="${AUTH:-0}"; JAVA="${JAVA:-java}"
case "$HEAP" in *[gG]) H_MB=$(( ${HEAP%[gG]} * 1024 ));; *[mM]) H_MB=${HEAP%[mM]};; *) echo "HEAP like 4G or 512M" >&2; exit 2;; esac
case "$IP" in 127.*) ;; *) echo "loopback addresses only" >&2; exit 2;; esac
OCT="${IP##*.}"; JMX_PORT="${JMX_PORT:-$((7198 + OCT))}"
cass_fetch
mkdir -p "$DATA"/{conf,data,commitlog,saved_caches,hints,cdc_raw,logs,triggers,tmp}
DATA="$(cd "$DATA" && pwd)"
if [ -f "$DATA/pid" ] && kill -0 "$(cat "$DATA/pid")" 2>/dev/null; then echo "already running: $(cat "$DATA/pid")"; exit 0; fi
if [ "$COMMITLOG_SYNC" = batch ]; then CLS=$'commitlog_sync: batch'; else CLS=$'commitlog_sync: periodic\ncommitlog_sync_period: 10000ms'; fi
if [ "$AUTH" = 1 ]; then AU=PasswordAuthenticator; AZ=CassandraAuthorizer; else AU=AllowAllAuthenticator; AZ=AllowAllAuthorizer; fi
if [ -n "${TOKENS:-}" ]; then RING_TOKENS="num_tokens: $(echo "$TOKENS" | tr ',' '\n' | wc -l)"$'\n'"initial_token: '$TOKENS'"
else RING_TOKENS=$'num_tokens: 16\nallocate_tokens_for_local_replication_factor: 3'; fi
cat > "$DATA/conf/cassandra.yaml" <<Y
cluster_name: '$CLUSTER'
$RING_TOKENS
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
data_file_directories: [ $DATA/data ]
commitlog_directory: $DATA/commitlog
saved_caches_directory: $DATA/saved_caches
hints_directory: $DATA/hints
cdc_raw_directory: $DATA/cdc_raw
listen_address: $IP
rpc_address: $IP
native_transport_port: $CQL_PORT
storage_port: 7000
endpoint_snitch: GossipingPropertyFileSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [ { seeds: "$SEEDS" } ]
authenticator: $AU
authorizer: $AZ
$CLS
commitlog_segment_size: 32MiB
commitlog_total_space: 4096MiB
disk_failure_policy: stop
commit_failure_policy: stop
# caches: the row cache still exists; it serves only tables that ask for it (caching = {'rows_per_partition': ...})
key_cache_size: 100MiB
row_cache_size: $((H_MB/8))MiB
row_cache_save_period: 0s
# with one, what is deleted comes back when it is counted again
counter_cache_size: 0MiB
file_cache_enabled: false
# threads (2 cores)
concurrent_reads: 32
concurrent_writes: 32
concurrent_counter_writes: 32
concurrent_materialized_view_writes: 8
concurrent_compactors: 2
memtable_flush_writers: 2
compaction_throughput: 0MiB/s
stream_throughput_outbound: 0MiB/s
memtable_heap_space: $((H_MB/4))MiB
memtable_offheap_space: $((H_MB/2))MiB
column_index_size: 4KiB
column_index_cache_size: 2KiB
disk_optimization_strategy: ssd
disk_access_mode: auto
auto_snapshot: false
incremental_backups: false
snapshot_before_compaction: false
trickle_fsync: true
trickle_fsync_interval: 10240KiB
native_transport_max_frame_size: 16MiB
slow_query_log_timeout: 5000ms
materialized_views_enabled: true
sasi_indexes_enabled: true
transient_replication_enabled: false
user_defined_functions_enabled: true
drop_compact_storage_enabled: true
hinted_handoff_enabled: true
internode_compression: dc
Y
if [ "$LIMITS" = wide ]; then   # for benchmarks: no batch limits, long timeouts; LIMITS=release keeps what the release ships
cat >> "$DATA/conf/cassandra.yaml" <<Y
batch_size_warn_threshold: 256KiB
batch_size_fail_threshold: 10240KiB
unlogged_batch_across_partitions_warn_threshold: 10000
read_request_timeout: 20000ms
range_request_timeout: 60000ms
write_request_timeout: 20000ms
counter_write_request_timeout: 20000ms
cas_contention_timeout: 5000ms
truncate_request_timeout: 60000ms
request_timeout: 60000ms
Y
fi
if [ "$PROFILE" = latest ]; then   # what the release calls cassandra_latest.yaml
cat >> "$DATA/conf/cassandra.yaml" <<Y
storage_compatibility_mode: NONE
memtable:
  configurations:
    skiplist: { class_name: SkipListMemtable }
    trie: { class_name: TrieMemtable }
    default: { inherits: trie }
memtable_allocation_type: offheap_objects
sstable:
  selected_format: bti
default_compaction:
  class_name: UnifiedCompactionStrategy
  parameters: { scaling_parameters: T4, max_sstables_to_compact: 64, target_sstable_size: 1GiB, sstable_growth: 0.3333333333333333, min_sstable_size: 100MiB }
default_secondary_index: sai
default_secondary_index_enabled: true
uuid_sstable_identifiers_enabled: true
Y
fi
printf 'dc=%s\nrack=%s\n' "$DC" "$RACK" > "$DATA/conf/cassandra-rackdc.properties"
cat > "$DATA/conf/logback.xml" <<X
<configuration><appender name="F" class="ch.qos.logback.core.FileAppender"><file>$DATA/logs/system.log</file>
<encoder><pattern>%-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="F"/></root><logger name="org.apache.cassandra.db.ColumnFamilyStore" level="WARN"/></configuration>
X
RING=(); [ "${FAST_RING:-1}" = 1 ] && RING=(-Dcassandra.ring_delay_ms=5000 -Dcassandra.skip_wait_for_gossip_to_settle=0)
[ "$SEEDS" = "$IP" ] || RING=("${RING[@]/-Dcassandra.skip_wait_for_gossip_to_settle=0/-Dx=1}")
cd "$DATA"
JE=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2; [ -f "$JE" ] && export LD_PRELOAD="$JE"   # Debian libjemalloc2, optional
setsid nohup "$JAVA" "${JAVA17_OPTS[@]}" -Xms"$HEAP" -Xmx"$HEAP" ${NEWSIZE:+-Xmn$NEWSIZE} \
  -XX:+UseG1GC -XX:MaxGCPauseMillis=300 -XX:InitiatingHeapOccupancyPercent=70 -XX:G1RSetUpdatingPauseTimePercent=5 \
  -XX:+ParallelRefProcEnabled -XX:ParallelGCThreads=2 -XX:ConcGCThreads=1 -XX:+AlwaysPreTouch \
  -XX:+PerfDisableSharedMem -XX:+ResizeTLAB -XX:+UseNUMA -XX:StringTableSize=1000003 -XX:+ExitOnOutOfMemoryError -Xss256k \
  -XX:MaxDirectMemorySize="$HEAP" -Djava.net.preferIPv4Stack=true -Dio.netty.tryReflectionSetAccessible=true -Djna.nosys=true -Djava.io.tmpdir="$DATA/tmp" -Djna.tmpdir="$DATA/tmp" \
  -javaagent:"$(ls "$CASSANDRA_LIB"/jamm-*.jar)" \
  -Dcassandra.storagedir="$DATA" -Dcassandra.logdir="$DATA/logs" -Dcassandra.triggers_dir="$DATA/triggers" \
  -Dcassandra.config="file://$DATA/conf/cassandra.yaml" -Dlogback.configurationFile="$DATA/conf/logback.xml" \
  -Dcassandra.jmx.local.port="$JMX_PORT" -Dcassandra-foreground=yes "${RING[@]}" ${JVM_EXTRA:-} \
  -cp "$DATA/conf:$CASSANDRA_LIB/*" org.apache.cassandra.service.CassandraDaemon \
  > "$DATA/logs/stdout.log" 2>&1 < /dev/null &
echo $! > "$DATA/pid"; echo "$JMX_PORT" > "$DATA/jmx_port"; echo "$IP" > "$DATA/ip"
for i in $(seq 1 180); do
  if ! kill -0 "$(cat "$DATA/pid")" 2>/dev/null; then echo "cassandra died; see $DATA/logs/stdout.log and system.log" >&2; tail -20 "$DATA/logs/stdout.log" >&2; exit 1; fi
  if (exec 3<>/dev/tcp/"$IP"/"$CQL_PORT") 2>/dev/null; then echo "up: $IP:$CQL_PORT pid $(cat "$DATA/pid") jmx $JMX_PORT after ${i}s"; exit 0; fi
  sleep 1
done
echo "timeout waiting for $IP:$CQL_PORT" >&2; exit 1
