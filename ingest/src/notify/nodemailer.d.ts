/** What is used of nodemailer, which has no types of its own. */

declare module 'nodemailer' {
  export interface Mail {
    from: string
    to: readonly string[]
    subject: string
    text: string
    messageId: string
    headers: Record<string, string>
    signal?: AbortSignal
  }

  export interface Transport {
    sendMail(mail: Mail): Promise<unknown>
  }

  export function createTransport(options: Record<string, unknown>): Transport
}
