/** The options of the api; `--help` prints them. */

import { databaseOptions } from '@sandglass/common/database'
import {
  address,
  allowRemote,
  bytes,
  contents,
  integer,
  requireKeys,
  url,
} from '@sandglass/common/options'
import { lineTopic, topicTemplates } from '@sandglass/common/topics'

/**
 * @typedef {import('@sandglass/common/database').DatabaseOptions & {
 *   apiListen: import('@sandglass/common/options').Address,
 *   ingestUrl: string,
 *   rateLimit: number,
 *   bodyBytesMax: number,
 *   importBytesMax: number,
 *   streamsMax: number,
 *   topicTemplates: import('@sandglass/common/topics').Topics,
 *   lineTopic: string,
 *   allowRemote: boolean,
 *   requireKeys: boolean,
 *   apiTlsCert?: Buffer,
 *   apiTlsKey?: Buffer,
 * }} ApiOptions
 */

/** @type {import('@sandglass/common/options').OptionSpec<any>[]} */
export const options = [
  {
    flag: '--api-listen <host:port>',
    help: 'where the REST interface and the page are served',
    default: '127.0.0.1:8080',
    parse: address,
  },
  {
    flag: '--ingest-url <url>',
    help: 'where ingest serves HTTP',
    default: 'http://127.0.0.1:9181',
    parse: url('http:', 'https:'),
  },
  {
    flag: '--rate-limit <requests>',
    help: 'requests per second that one client address may make; 0 is no limit',
    default: '2000',
    parse: integer(0, 1_000_000),
  },
  {
    flag: '--body-bytes-max <size>',
    help: 'the largest body of a request',
    default: '1MiB',
    parse: bytes(1_024, 2 ** 30),
  },
  {
    flag: '--import-bytes-max <size>',
    help: 'the largest file that is imported, unpacked',
    default: '1GiB',
    parse: bytes(1_024, 2 ** 50),
  },
  {
    flag: '--streams-max <count>',
    help: 'live streams (server-sent events) that may be open at once',
    default: '256',
    parse: integer(1, 100_000),
  },
  {
    flag: '--api-tls-cert <file>',
    help: 'serve HTTPS with this certificate (and those it is signed by), in PEM',
    parse: contents,
  },
  { flag: '--api-tls-key <file>', help: 'its key, in PEM', parse: contents },
  requireKeys,
  topicTemplates,
  lineTopic,
  allowRemote,
  ...databaseOptions,
]
