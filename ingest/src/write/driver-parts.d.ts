// The private parts of cassandra-driver that rows-request.js and its test use.

declare module 'cassandra-driver/lib/execution-options.js' {
  interface Options {
    isQueryTracing(): boolean
    getCustomPayload(): object | undefined
    getSerialConsistency(): number | undefined
    getConsistency(): number
    getLoadBalancingPolicy(): object
  }
  const parts: { DefaultExecutionOptions: { create(options: object, client: object): Options } }
  export default parts
}

declare module 'cassandra-driver/lib/requests.js' {
  type Options = ReturnType<
    typeof import('cassandra-driver/lib/execution-options.js').default.DefaultExecutionOptions.create
  >
  interface Batch<Query> {
    queries: Query[]
    options: Options
    timestamp: import('cassandra-driver').types.Long | null | undefined
    type: number
    length: number
    write(encoder: object, streamId: number): Buffer
  }
  const parts: { BatchRequest: new <Query>(queries: Query[], options: Options) => Batch<Query> }
  export default parts
}

declare module 'cassandra-driver/lib/prepare-handler.js' {
  interface Prepared {
    queryId: Buffer
    meta: { columns: { type: { code: number } }[] }
  }
  const PrepareHandler: {
    getPrepared(client: object, policy: object, query: string, keyspace?: string): Promise<Prepared>
  }
  export default PrepareHandler
}

declare module 'cassandra-driver/lib/request-handler.js' {
  const RequestHandler: { send(request: object, options: object, client: object): Promise<unknown> }
  export default RequestHandler
}

declare module 'cassandra-driver/lib/encoder.js' {
  interface Values {
    protocolVersion: number
    encode(value: unknown, type: { code: number }): Uint8Array | object | null
  }
  const Encoder: new (version: number, options: object) => Values
  export default Encoder
}
