/** The ways to receivers: webhooks and MQTT always, mail if ingest knows a server. */

import { SettingError } from '@sandglass/common/options'
import { mailCarrier } from './mail.js'
import { mqttCarrier } from './mqtt.js'
import { webhook } from './webhook.js'

/** @type {import('./sender.js').Carrier} */
const NO_MAIL = {
  async send() {
    throw new Error('ingest knows no mail server: start it with SMTP_URL and MAIL_FROM')
  },
}

/**
 * @param {object} parts
 * @param {{ smtpUrl?: string, mailFrom?: string }} parts.options
 * @param {Record<string, string | undefined>} parts.env  With `SMTP_USERNAME`, `SMTP_PASSWORD`.
 * @param {import('./mqtt.js').Publish} parts.publish
 * @returns {Partial<Record<string, import('./sender.js').Carrier>>}
 */
export function carriersOf({ options: { smtpUrl: url, mailFrom: from }, env, publish }) {
  const carriers = { webhook, mqtt: mqttCarrier(publish) }
  if (url === undefined) return { ...carriers, mail: NO_MAIL }
  if (from === undefined)
    throw new SettingError('--smtp-url needs --mail-from: who mails are from.')
  const { SMTP_USERNAME: username, SMTP_PASSWORD: password } = env
  return { ...carriers, mail: mailCarrier({ url, from, username, password }) }
}
