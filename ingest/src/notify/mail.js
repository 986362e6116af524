/** Tells a receiver by mail, through a server of SMTP. */

import { cut } from '@sandglass/common/text'

/** How long the server may be silent, in milliseconds. */
const SILENCE_MS_MAX = 10_000

/** How long it may take until it has a mail, however much it says meanwhile, in milliseconds. */
const TAKEN_MS_MAX = 30_000

/** Longest subject, in characters: the sentence is in the text as a whole. */
const SUBJECT_LENGTH_MAX = 120

/**
 * @typedef {object} MailOptions
 * @property {string} url  `smtp:` or `smtps:`.
 * @property {string} from
 * @property {string | undefined} username
 * @property {string | undefined} password
 */

/**
 * What is sent. The id of the message is that of the notification, so a mail server or a reader
 * that gets it twice can know.
 *
 * @param {import('@sandglass/common/rules/receiver').Receiver} receiver
 * @param {import('../rules/store.js').Notification} notification
 * @param {string} from
 */
function mailOf({ to = [] }, { id, change, body }, from) {
  const { data } = JSON.parse(body)
  const { rule, sensor, metric, value, text, fired, resolved, alert } = data
  const lines = [
    text,
    '',
    `Rule: ${rule.name} (${rule.severity})`,
    ...(sensor.name ? [`Sensor: ${sensor.name}${metric === null ? '' : `, ${metric}`}`] : []),
    ...(value === null ? [] : [`Value: ${value}`]),
    `Since: ${new Date(fired).toISOString()}`,
    ...(resolved === null ? [] : [`Until: ${new Date(resolved).toISOString()}`]),
    ...(change === 'test' ? [] : [`Alert: ${alert}`]),
  ]
  const subject = cut(`[${change}] ${rule.name}: ${text}`, SUBJECT_LENGTH_MAX)
  return {
    from,
    to,
    subject,
    text: `${lines.join('\n')}\n`,
    messageId: `<${id}@sandglass>`,
    headers: { 'X-Sandglass-Notification': id, 'Auto-Submitted': 'auto-generated' },
  }
}

/**
 * @param {MailOptions} options
 * @param {number} [takenMsMax]
 * @returns {import('./sender.js').Carrier}
 */
export function mailCarrier({ url, from, username, password }, takenMsMax = TAKEN_MS_MAX) {
  const { protocol, hostname: host, port } = new URL(url)
  const isTls = protocol === 'smtps:'
  /** @type {import('nodemailer').Transport | undefined} */
  let transport
  return {
    async send(receiver, notification) {
      if (!transport) {
        // Most installations send no mail.
        const { createTransport } = await import('nodemailer')
        transport = createTransport({
          host,
          port: port === '' ? (isTls ? 465 : 587) : Number(port),
          secure: isTls,
          // A password does not travel in the open: without TLS the server must offer STARTTLS.
          requireTLS: username !== undefined && !isTls,
          auth: username === undefined ? undefined : { user: username, pass: password ?? '' },
          connectionTimeout: SILENCE_MS_MAX,
          greetingTimeout: SILENCE_MS_MAX,
          socketTimeout: SILENCE_MS_MAX,
          disableFileAccess: true,
          disableUrlAccess: true,
        })
      }
      // Each mail has a connection of its own, which the signal closes.
      const signal = AbortSignal.timeout(takenMsMax)
      const mail = { ...mailOf(receiver, notification, from), signal }
      await transport.sendMail(mail).catch((error) => {
        const seconds = takenMsMax / 1000
        throw signal.aborted
          ? new Error(`the mail server has not taken it within ${seconds} seconds`)
          : error
      })
    },
  }
}
