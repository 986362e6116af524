/** What is used of smtp-server, which has no types of its own. */

declare module 'smtp-server' {
  type Done = (error?: Error | null, answer?: { user: string }) => void

  export class SMTPServer {
    constructor(options: {
      secure?: boolean
      authOptional?: boolean
      disabledCommands?: string[]
      allowInsecureAuth?: boolean
      key?: Buffer
      cert?: Buffer
      onAuth?: (auth: { username: string; password: string }, session: unknown, done: Done) => void
      onRcptTo?: (address: { address: string }, session: unknown, done: Done) => void
      onData?: (stream: NodeJS.ReadableStream, session: unknown, done: Done) => void
    })
    server: import('node:net').Server
    listen(port: number, host: string, done: () => void): void
    close(done: () => void): void
  }
}
