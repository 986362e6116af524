/** The api: options → database → application → listen; stopped in reverse order. */

import { ClaimStore } from '@sandglass/common/claim-store'
import { Database } from '@sandglass/common/database'
import { KeyStore } from '@sandglass/common/key-store'
import { createRegistry } from '@sandglass/common/metrics'
import { isLoopback, readOptions, requireLoopback, SettingError } from '@sandglass/common/options'
import { run } from '@sandglass/common/service'
import { buildApp } from './app.js'
import { Catalog } from './catalog.js'
import { createIngestClient } from './ingest-client.js'
import { options } from './options.js'
import { createStore } from './store.js'

await run('api', async ({ logger, onStop }) => {
  const settings = /** @type {import('./options.js').ApiOptions} */ (
    readOptions(
      { name: 'api', description: 'Serves what sensors measured: REST, and a page.', options },
      process.argv,
    )
  )
  const { host, port } = settings.apiListen
  const { requireKeys, allowRemote, apiTlsCert, apiTlsKey } = settings
  requireLoopback('--api-listen', settings.apiListen, allowRemote || requireKeys)
  if ((apiTlsCert === undefined) !== (apiTlsKey === undefined)) {
    throw new SettingError('Give both of --api-tls-cert and --api-tls-key, or neither.')
  }
  if (requireKeys && !isLoopback(settings.apiListen) && !apiTlsCert) {
    logger.warn('keys travel without encryption: give --api-tls-cert, or put a proxy in front')
  }

  const database = new Database(settings, logger)
  onStop('database', () => database.close())
  const keys = new KeyStore({ database, logger })
  const store = createStore(database)
  const catalog = new Catalog({ store })
  const app = await buildApp({
    store,
    catalog,
    isDatabaseUp: () => database.isUp,
    ingest: createIngestClient(settings.ingestUrl),
    registry: createRegistry('sandglass_api_'),
    topics: settings.topicTemplates,
    lineTopic: settings.lineTopic,
    limits: {
      requestsPerS: settings.rateLimit,
      bodyBytesMax: settings.bodyBytesMax,
      importBytesMax: settings.importBytesMax,
      streamsMax: settings.streamsMax,
    },
    isLoopback: isLoopback(settings.apiListen),
    keys,
    claims: new ClaimStore({ database, keys, logger }),
    requireKeys,
    ...(apiTlsCert && apiTlsKey && { https: { cert: apiTlsCert, key: apiTlsKey } }),
    logger,
  })
  onStop('http', () => app.close())
  await app.listen({ host, port })
  // Served before the database is there: the page and /ready say that it is not.
  void database.connect({ createSchema: false }).then(() => {
    if (!database.isUp) return
    logger.info({ hosts: settings.cqlHosts }, 'the database is connected')
    // Whoever looks at the fleet first need not wait until all sensors are read. If this fails, the
    // next who asks reads them.
    catalog.warm().catch(() => {})
  })
  logger.info({ url: `http${apiTlsCert ? 's' : ''}://${host}:${port}` }, 'ready')
})
